package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;

/** Element-wise and row-wise operations on fp32 activations. */
public final class RowOps {
    private RowOps() {}

    /** {@code out = x / sqrt(mean(x²) + epsilon) · weight} over {@code size} values. */
    public static void rmsNorm(float[] x, int xo, float[] weight, float epsilon, int size, float[] out, int oo) {
        FloatVector sum = FloatVector.zero(Lanes.F);
        int i = 0;
        for (; i + Lanes.COUNT <= size; i += Lanes.COUNT) {
            FloatVector v = FloatVector.fromArray(Lanes.F, x, xo + i);
            sum = v.fma(v, sum);
        }
        float squares = sum.reduceLanes(VectorOperators.ADD);
        for (; i < size; i++) {
            squares = Math.fma(x[xo + i], x[xo + i], squares);
        }
        float scale = (float) (1 / Math.sqrt(squares / size + epsilon));
        for (i = 0; i + Lanes.COUNT <= size; i += Lanes.COUNT) {
            FloatVector.fromArray(Lanes.F, x, xo + i)
                    .mul(scale)
                    .mul(FloatVector.fromArray(Lanes.F, weight, i))
                    .intoArray(out, oo + i);
        }
        for (; i < size; i++) {
            out[oo + i] = x[xo + i] * scale * weight[i];
        }
    }

    /** {@code gate = gate · sigmoid(gate) · up} over {@code size} values. */
    public static void swiGlu(float[] gate, int go, float[] up, int uo, int size, float[] out, int oo) {
        for (int i = 0; i < size; i += Lanes.COUNT) {
            VectorMask<Float> mask = Lanes.F.indexInRange(i, size);
            FloatVector g = FloatVector.fromArray(Lanes.F, gate, go + i, mask);
            FloatVector denominator = g.neg().lanewise(VectorOperators.EXP).add(1f);
            FloatVector u = FloatVector.fromArray(Lanes.F, up, uo + i, mask);
            g.div(denominator).mul(u).intoArray(out, oo + i, mask);
        }
    }

    /**
     * Rotates each pair (i, i + half) of one head by its angle.
     *
     * @param cos [half] from {@code ao}
     * @param sin [half] from {@code ao}
     */
    public static void rotate(float[] x, int xo, float[] cos, float[] sin, int ao, int half) {
        for (int i = 0; i < half; i += Lanes.COUNT) {
            VectorMask<Float> mask = Lanes.F.indexInRange(i, half);
            FloatVector a = FloatVector.fromArray(Lanes.F, x, xo + i, mask);
            FloatVector b = FloatVector.fromArray(Lanes.F, x, xo + half + i, mask);
            FloatVector c = FloatVector.fromArray(Lanes.F, cos, ao + i, mask);
            FloatVector s = FloatVector.fromArray(Lanes.F, sin, ao + i, mask);
            a.mul(c).sub(b.mul(s)).intoArray(x, xo + i, mask);
            b.mul(c).add(a.mul(s)).intoArray(x, xo + half + i, mask);
        }
    }

    /**
     * Replaces the first {@code size} scores by exp(score − max) and those up to the next {@code padded} by 0.
     *
     * @return the sum of the exponentials
     */
    public static float softmax(float[] scores, int so, int size, int padded) {
        for (int i = size; i < padded; i++) {
            scores[so + i] = Float.NEGATIVE_INFINITY;
        }
        FloatVector most = FloatVector.broadcast(Lanes.F, Float.NEGATIVE_INFINITY);
        for (int i = 0; i < padded; i += Lanes.COUNT) {
            most = most.max(FloatVector.fromArray(Lanes.F, scores, so + i));
        }
        float max = most.reduceLanes(VectorOperators.MAX);
        FloatVector sum = FloatVector.zero(Lanes.F);
        for (int i = 0; i < padded; i += Lanes.COUNT) {
            FloatVector e = FloatVector.fromArray(Lanes.F, scores, so + i).sub(max).lanewise(VectorOperators.EXP);
            e.intoArray(scores, so + i);
            sum = sum.add(e);
        }
        return sum.reduceLanes(VectorOperators.ADD);
    }

    /**
     * Scales fp32 values into native memory.
     *
     * @param count a multiple of 16
     * @param to address
     */
    public static void scale(float[] from, int at, float factor, int count, long to) {
        for (int i = 0; i < count; i += Lanes.COUNT) {
            FloatVector.fromArray(Lanes.F, from, at + i).mul(factor).intoMemorySegment(Lanes.MEMORY, to + 4L * i, Lanes.LE);
        }
    }

    /**
     * Stored values to scaled fp32, {@code stride} apart: one query head among those that share a kernel call.
     *
     * @param count a multiple of 16
     * @param row [count] working memory
     * @param to [count, stride]
     */
    public static void spread(
            DataType type, long from, int count, float factor, float[] row, float[] to, int at, int stride) {
        for (int i = 0; i < count; i += Lanes.COUNT) {
            switch (type) {
                case FLOAT32 -> Lanes.load(from + 4L * i).mul(factor).intoArray(row, i);
                case BFLOAT16 -> Unpack.bf16(from + 2L * i).mul(factor).intoArray(row, i);
                case FLOAT16 -> Unpack.fp16(from + 2L * i).mul(factor).intoArray(row, i);
            }
        }
        for (int i = 0; i < count; i++) {
            to[at + i * stride] = row[i];
        }
    }
}
