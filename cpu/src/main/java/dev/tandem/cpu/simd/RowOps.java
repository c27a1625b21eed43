package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShuffle;

/**
 * Element-wise and row-wise operations on fp32 activations. Their results have the same bits in interpreted and
 * compiled code, and at every vector width.
 */
public final class RowOps {
    private static final float LOG2_E = (float) PowerOfTwo.LOG2_E;
    /** sqrt(2 / pi), of GELU's approximation. */
    private static final float GELU_SLOPE = 0.7978846f;

    private static final float GELU_CUBE = 0.044715f;

    /**
     * The number of partial sums of a sum across lanes, at every vector width: as many as one vector of 512 bits has.
     * The value at index i is added to partial sum i mod 16.
     */
    public static final int PARTIAL_SUMS = 16;

    private static final VectorShuffle<Float> NEXT_8 = next(8);
    private static final VectorShuffle<Float> NEXT_4 = next(4);
    private static final VectorShuffle<Float> NEXT_2 = next(2);
    private static final VectorShuffle<Float> NEXT_1 = next(1);

    private RowOps() {}

    /** A rotation of lanes: lane i of the result comes from lane (i + distance) mod {@link Lanes#COUNT}. */
    private static VectorShuffle<Float> next(int distance) {
        return VectorShuffle.iota(Lanes.F, distance, 1, true);
    }

    /**
     * Adds 16 partial sums in the same order at every width: first those 8 apart, then 4, 2 and 1. The order of
     * {@code reduceLanes(ADD)} is not specified, and differs between interpreted and compiled code.
     *
     * @param a the first partial sums
     * @param b those after {@code a} if a vector has at most 8 lanes; unused otherwise
     * @param c those after {@code b} if a vector has 4 lanes; unused otherwise
     * @param d those after {@code c} if a vector has 4 lanes; unused otherwise
     */
    private static float sum(FloatVector a, FloatVector b, FloatVector c, FloatVector d) {
        FloatVector sum = switch (Lanes.COUNT) {
            case 16 -> a.add(a.rearrange(NEXT_8));
            case 8 -> a.add(b);
            default -> a.add(c).add(b.add(d));
        };
        if (Lanes.COUNT >= 8) {
            sum = sum.add(sum.rearrange(NEXT_4));
        }
        sum = sum.add(sum.rearrange(NEXT_2));
        return sum.add(sum.rearrange(NEXT_1)).lane(0);
    }

    /** Computes {@code out = x / sqrt(mean(x²) + epsilon) · weight} over {@code size} values. */
    public static void rmsNorm(float[] x, int xo, float[] weight, float epsilon, int size, float[] out, int oo) {
        FloatVector a = FloatVector.zero(Lanes.F);
        FloatVector b = a;
        FloatVector c = a;
        FloatVector d = a;
        int i = 0;
        for (; i + PARTIAL_SUMS <= size; i += PARTIAL_SUMS) {
            a = addSquare(x, xo + i, a);
            if (Lanes.COUNT <= 8) {
                b = addSquare(x, xo + i + Lanes.COUNT, b);
            }
            if (Lanes.COUNT <= 4) {
                c = addSquare(x, xo + i + 2 * Lanes.COUNT, c);
                d = addSquare(x, xo + i + 3 * Lanes.COUNT, d);
            }
        }
        float squares = sum(a, b, c, d);
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

    private static FloatVector addSquare(float[] x, int at, FloatVector sum) {
        FloatVector v = FloatVector.fromArray(Lanes.F, x, at);
        return v.fma(v, sum);
    }

    /** Computes {@code out = gate · sigmoid(gate) · up} over {@code size} values; {@code out} may be {@code gate}. */
    public static void swiGlu(float[] gate, int go, float[] up, int uo, int size, float[] out, int oo) {
        for (int i = 0; i < size; i += Lanes.COUNT) {
            VectorMask<Float> mask = Lanes.F.indexInRange(i, size);
            FloatVector g = FloatVector.fromArray(Lanes.F, gate, go + i, mask);
            FloatVector denominator = PowerOfTwo.of(g.mul(-LOG2_E)).add(1f);
            FloatVector u = FloatVector.fromArray(Lanes.F, up, uo + i, mask);
            g.div(denominator).mul(u).intoArray(out, oo + i, mask);
        }
    }

    /**
     * Computes {@code out = gelu(gate) · up} over {@code size} values, with GELU's approximation by tanh; {@code out}
     * may be {@code gate}. As {@code (1 + tanh(z)) / 2} is {@code sigmoid(2z)}, no tanh is needed.
     */
    public static void geGlu(float[] gate, int go, float[] up, int uo, int size, float[] out, int oo) {
        for (int i = 0; i < size; i += Lanes.COUNT) {
            VectorMask<Float> mask = Lanes.F.indexInRange(i, size);
            FloatVector g = FloatVector.fromArray(Lanes.F, gate, go + i, mask);
            FloatVector z = g.mul(g).mul(GELU_CUBE).add(1f).mul(g);
            FloatVector denominator =
                    PowerOfTwo.of(z.mul(-2 * GELU_SLOPE * LOG2_E)).add(1f);
            FloatVector u = FloatVector.fromArray(Lanes.F, up, uo + i, mask);
            g.div(denominator).mul(u).intoArray(out, oo + i, mask);
        }
    }

    /**
     * Applies RoPE to one head in place: rotates each pair (i, i + half) by its angle.
     *
     * @param x [2 · half] from {@code xo}
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
     * Replaces the scores {@code [first, end)} by weights 2^(score − max), and the others up to {@code padded} by 0.
     *
     * @param padded a multiple of 16
     * @param maxima receives max at {@code row}
     * @return the sum of the weights
     */
    public static float softmax(float[] scores, int so, int first, int end, int padded, float[] maxima, int row) {
        Arrays.fill(scores, so, so + first, Float.NEGATIVE_INFINITY);
        Arrays.fill(scores, so + end, so + padded, Float.NEGATIVE_INFINITY);
        FloatVector tops = FloatVector.broadcast(Lanes.F, Float.NEGATIVE_INFINITY);
        for (int i = 0; i < padded; i += Lanes.COUNT) {
            tops = tops.max(FloatVector.fromArray(Lanes.F, scores, so + i));
        }
        float max = tops.reduceLanes(VectorOperators.MAX);
        FloatVector a = FloatVector.zero(Lanes.F);
        FloatVector b = a;
        FloatVector c = a;
        FloatVector d = a;
        for (int i = 0; i < padded; i += PARTIAL_SUMS) {
            a = a.add(toWeights(scores, so + i, max));
            if (Lanes.COUNT <= 8) {
                b = b.add(toWeights(scores, so + i + Lanes.COUNT, max));
            }
            if (Lanes.COUNT <= 4) {
                c = c.add(toWeights(scores, so + i + 2 * Lanes.COUNT, max));
                d = d.add(toWeights(scores, so + i + 3 * Lanes.COUNT, max));
            }
        }
        maxima[row] = max;
        return sum(a, b, c, d);
    }

    /** Replaces a vector of scores by weights, and returns these. */
    private static FloatVector toWeights(float[] scores, int at, float max) {
        FloatVector power =
                PowerOfTwo.ofNegative(FloatVector.fromArray(Lanes.F, scores, at).sub(max));
        power.intoArray(scores, at);
        return power;
    }

    /**
     * Writes fp32 values times a factor to native memory.
     *
     * @param count a multiple of 16
     * @param to address
     */
    public static void scale(float[] from, int at, float factor, int count, long to) {
        for (int i = 0; i < count; i += Lanes.COUNT) {
            FloatVector.fromArray(Lanes.F, from, at + i)
                    .mul(factor)
                    .intoMemorySegment(Lanes.MEMORY, to + 4L * i, Lanes.LE);
        }
    }

    /**
     * Widens stored values to fp32, times a factor, and writes them {@code stride} apart: one query head among those
     * that share a kernel call.
     *
     * @param from address of [count] values of the type
     * @param count a multiple of 16
     * @param row [count] working memory
     * @param to [count, stride]; column {@code at} is written
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
