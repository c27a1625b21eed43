package dev.tandem.cpu.simd;

import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.tandem.model.config.DataType;
import java.lang.invoke.MethodHandles;
import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;

/**
 * The inner loops of decode attention over blocks of 64 tokens (see {@code decode.BlockFormat}), for 1, 2 or 4 query
 * heads that share each load. Written out by hand: in large methods, helpers that take or return vectors stop being
 * inlined, and then vectors become objects. With several heads, values that share a lane are taken in two passes, those in the
 * lower halves first: the compiler moves all loads of a pass to its start, and those of both need more than sixteen registers. Vectors of
 * 512 bits have 32 registers: sixteen sums of four heads, both halves in one pass.
 * Loops count rows by one with constant strides into arrays, or every access is checked.
 *
 * <p>The class is a template: {@link DecodeKernel#of} loads it once a data type, which is a constant to the compiler, so
 * one source serves all three at full speed.
 */
final class DecodeKernelTemplate implements DecodeKernel {
    private static final DataType TYPE = type();
    private static final boolean BF16 = TYPE == DataType.BFLOAT16;
    private static final boolean FP16 = TYPE == DataType.FLOAT16;
    /** Whether two values share a lane. */
    private static final boolean PAIRED = BF16 || FP16;
    private static final int HIGH = 0xFFFF0000;
    /** fp16's sign, exponent and mantissa where fp32 has them; the value comes out 2^-112 times too small. */
    private static final int HALF = 0x8FFFE000;
    private static final int BLOCK = 64;
    /** Bytes of a row of 64 lanes. */
    private static final int ROW = 4 * BLOCK;
    private static final int VECTOR = 4 * Lanes.COUNT;
    /**
     * Bytes of a tile that all strips of it pass over before the next ones are touched: they stay in the first-level cache. Broad vectors pass
     * over a tile in few strips, and what is ahead is to be asked for in small pieces.
     */
    private static final int CHUNK = Lanes.bits() >= 512 ? 2048 : 8192;
    /** Whether there are 32 registers. */
    private static final boolean MANY_REGISTERS = Lanes.bits() >= 512;

    private static DataType type() {
        try {
            return MethodHandles.classData(MethodHandles.lookup(), "_", DataType.class);
        } catch (IllegalAccessException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** Lanes that one call of a kernel computes where so many are left: eight sums, so that sixteen registers are enough, or sixteen. */
    private static int strip(int heads, int left) {
        boolean broad = heads < 4 || MANY_REGISTERS && left > 2 * Lanes.COUNT;
        return (broad ? 4 : 2) * Lanes.COUNT;
    }

    @Override
    public int pieces(int heads, int keyRows, int headDim, int tokens) {
        int strip = strip(heads, tokens);
        int some = CHUNK / ROW;
        int others = CHUNK / (4 * headDim);
        int scores = (keyRows + some - 1) / some * ((tokens + strip - 1) / strip);
        int strips = 0;
        for (int dim = 0; strip(heads, headDim - dim) <= headDim - dim; strips++) {
            dim += strip(heads, headDim - dim);
        }
        return scores + (valueRows(tokens) + others - 1) / others * strips;
    }

    private static int valueRows(int tokens) {
        return PAIRED ? (tokens + 1) / 2 : tokens;
    }

    @Override
    public void scores(int heads, long k, int keyRows, int tokens, float[] q, int qo, float[] s, int so, Prefetch.Ahead ahead) {
        int strip = strip(heads, tokens);
        int some = CHUNK / ROW;
        Arrays.fill(s, so, so + heads * BLOCK, 0);
        for (int row = 0; row < keyRows; row += some) {
            int rows = Math.min(some, keyRows - row);
            int qi = qo + row * heads * (PAIRED ? 2 : 1);
            for (int token = 0; token < tokens; token += strip) {
                ahead.more();
                long from = k + row * ROW + 4 * token;
                switch (heads) {
                    case 1 -> scores1(from, rows, ROW, q, qi, s, so + token);
                    case 2 -> scores2(from, rows, ROW, q, qi, s, so + token);
                    default -> {
                        if (strip == 2 * Lanes.COUNT) {
                            scores4(from, rows, ROW, q, qi, s, so + token);
                        } else {
                            broadScores4(from, rows, ROW, q, qi, s, so + token);
                        }
                    }
                }
            }
        }
    }

    @Override
    public void weigh(int heads, long v, int headDim, int tokens, float[] p, int po, float[] o, int oo, Prefetch.Ahead ahead) {
        int width = 4 * headDim;
        int all = valueRows(tokens);
        int some = CHUNK / width;
        for (int row = 0; row < all; row += some) {
            int rows = Math.min(some, all - row);
            long from = v + row * width;
            int pi = po + (PAIRED ? 2 : 1) * row;
            for (int dim = 0; dim < headDim; ) {
                int strip = strip(heads, headDim - dim);
                if (strip <= headDim - dim) {
                    ahead.more();
                    weighStrip(heads, strip, from + 4 * dim, rows, width, p, pi, o, oo + dim, headDim);
                    dim += strip;
                } else {
                    for (int head = 0; head < heads; head++) {
                        narrow1(from + 4 * dim, rows, width, p, pi + head * BLOCK, o, oo + head * headDim + dim);
                    }
                    dim += Lanes.COUNT;
                }
            }
        }
    }

    private static void weighStrip(int heads, int strip, long from, int rows, int width, float[] p, int pi, float[] o, int oo, int headDim) {
        switch (heads) {
            case 1 -> weigh1(from, rows, width, p, pi, o, oo, headDim);
            case 2 -> weigh2(from, rows, width, p, pi, o, oo, headDim);
            default -> {
                if (strip == 2 * Lanes.COUNT) {
                    weigh4(from, rows, width, p, pi, o, oo, headDim);
                } else {
                    broadWeigh4(from, rows, width, p, pi, o, oo, headDim);
                }
            }
        }
    }

    private static void scores4(long from, int rows, int step, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 1 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 0]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 1]);
            a10 = x0.fma(y1, a10);
            a11 = x1.fma(y1, a11);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 2]);
            a20 = x0.fma(y2, a20);
            a21 = x1.fma(y2, a21);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 3]);
            a30 = x0.fma(y3, a30);
            a31 = x1.fma(y3, a31);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                FloatVector x1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 4]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 5]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                FloatVector y2 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 6]);
                a20 = x0.fma(y2, a20);
                a21 = x1.fma(y2, a21);
                FloatVector y3 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 7]);
                a30 = x0.fma(y3, a30);
                a31 = x1.fma(y3, a31);
            }
        }
        a00.intoArray(s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        a01.intoArray(s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        a10.intoArray(s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        a11.intoArray(s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        a20.intoArray(s, so + 2 * BLOCK + 0 * Lanes.COUNT);
        a21.intoArray(s, so + 2 * BLOCK + 1 * Lanes.COUNT);
        a30.intoArray(s, so + 3 * BLOCK + 0 * Lanes.COUNT);
        a31.intoArray(s, so + 3 * BLOCK + 1 * Lanes.COUNT);
    }

    private static void broadScores4(long from, int rows, int step, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 3 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a22 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a23 = FloatVector.fromArray(Lanes.F, s, so + 2 * BLOCK + 3 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a32 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a33 = FloatVector.fromArray(Lanes.F, s, so + 3 * BLOCK + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 0]);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 1]);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 2]);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 8 : 4) * row + 3]);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            a00 = x0.fma(y0, a00);
            a10 = x0.fma(y1, a10);
            a20 = x0.fma(y2, a20);
            a30 = x0.fma(y3, a30);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            a01 = x1.fma(y0, a01);
            a11 = x1.fma(y1, a11);
            a21 = x1.fma(y2, a21);
            a31 = x1.fma(y3, a31);
            FloatVector x2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
            a02 = x2.fma(y0, a02);
            a12 = x2.fma(y1, a12);
            a22 = x2.fma(y2, a22);
            a32 = x2.fma(y3, a32);
            FloatVector x3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
            a03 = x3.fma(y0, a03);
            a13 = x3.fma(y1, a13);
            a23 = x3.fma(y2, a23);
            a33 = x3.fma(y3, a33);
            if (PAIRED) {
                FloatVector z0 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 4]);
                FloatVector z1 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 5]);
                FloatVector z2 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 6]);
                FloatVector z3 = FloatVector.broadcast(Lanes.F, q[qo + 8 * row + 7]);
                FloatVector u0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a00 = u0.fma(z0, a00);
                a10 = u0.fma(z1, a10);
                a20 = u0.fma(z2, a20);
                a30 = u0.fma(z3, a30);
                FloatVector u1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a01 = u1.fma(z0, a01);
                a11 = u1.fma(z1, a11);
                a21 = u1.fma(z2, a21);
                a31 = u1.fma(z3, a31);
                FloatVector u2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a02 = u2.fma(z0, a02);
                a12 = u2.fma(z1, a12);
                a22 = u2.fma(z2, a22);
                a32 = u2.fma(z3, a32);
                FloatVector u3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a03 = u3.fma(z0, a03);
                a13 = u3.fma(z1, a13);
                a23 = u3.fma(z2, a23);
                a33 = u3.fma(z3, a33);
            }
        }
        a00.intoArray(s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        a01.intoArray(s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        a02.intoArray(s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        a03.intoArray(s, so + 0 * BLOCK + 3 * Lanes.COUNT);
        a10.intoArray(s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        a11.intoArray(s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        a12.intoArray(s, so + 1 * BLOCK + 2 * Lanes.COUNT);
        a13.intoArray(s, so + 1 * BLOCK + 3 * Lanes.COUNT);
        a20.intoArray(s, so + 2 * BLOCK + 0 * Lanes.COUNT);
        a21.intoArray(s, so + 2 * BLOCK + 1 * Lanes.COUNT);
        a22.intoArray(s, so + 2 * BLOCK + 2 * Lanes.COUNT);
        a23.intoArray(s, so + 2 * BLOCK + 3 * Lanes.COUNT);
        a30.intoArray(s, so + 3 * BLOCK + 0 * Lanes.COUNT);
        a31.intoArray(s, so + 3 * BLOCK + 1 * Lanes.COUNT);
        a32.intoArray(s, so + 3 * BLOCK + 2 * Lanes.COUNT);
        a33.intoArray(s, so + 3 * BLOCK + 3 * Lanes.COUNT);
    }

    private static void scores2(long from, int rows, int step, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, s, so + 1 * BLOCK + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            FloatVector x2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector x3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 4 : 2) * row + 0]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            a02 = x2.fma(y0, a02);
            a03 = x3.fma(y0, a03);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 4 : 2) * row + 1]);
            a10 = x0.fma(y1, a10);
            a11 = x1.fma(y1, a11);
            a12 = x2.fma(y1, a12);
            a13 = x3.fma(y1, a13);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                FloatVector x1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                FloatVector x2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector x3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + 4 * row + 2]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                a02 = x2.fma(y0, a02);
                a03 = x3.fma(y0, a03);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + 4 * row + 3]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                a12 = x2.fma(y1, a12);
                a13 = x3.fma(y1, a13);
            }
        }
        a00.intoArray(s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        a01.intoArray(s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        a02.intoArray(s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        a03.intoArray(s, so + 0 * BLOCK + 3 * Lanes.COUNT);
        a10.intoArray(s, so + 1 * BLOCK + 0 * Lanes.COUNT);
        a11.intoArray(s, so + 1 * BLOCK + 1 * Lanes.COUNT);
        a12.intoArray(s, so + 1 * BLOCK + 2 * Lanes.COUNT);
        a13.intoArray(s, so + 1 * BLOCK + 3 * Lanes.COUNT);
    }

    private static void scores1(long from, int rows, int step, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, s, so + 0 * BLOCK + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 2 : 1) * row]);
            a00 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats().fma(y0, a00);
            a01 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats().fma(y0, a01);
            a02 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats().fma(y0, a02);
            a03 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats().fma(y0, a03);
            if (PAIRED) {
                FloatVector y1 = FloatVector.broadcast(Lanes.F, q[qo + (PAIRED ? 2 : 1) * row + 1]);
                a00 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a00);
                a01 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a01);
                a02 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a02);
                a03 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a03);
            }
        }
        a00.intoArray(s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        a01.intoArray(s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        a02.intoArray(s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        a03.intoArray(s, so + 0 * BLOCK + 3 * Lanes.COUNT);
    }

    private static void weigh4(long from, int rows, int step, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 1 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 1 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 1 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 0 * BLOCK]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 1 * BLOCK]);
            a10 = x0.fma(y1, a10);
            a11 = x1.fma(y1, a11);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 2 * BLOCK]);
            a20 = x0.fma(y2, a20);
            a21 = x1.fma(y2, a21);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 3 * BLOCK]);
            a30 = x0.fma(y3, a30);
            a31 = x1.fma(y3, a31);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                FloatVector x1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 0 * BLOCK + 1]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 1 * BLOCK + 1]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                FloatVector y2 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 2 * BLOCK + 1]);
                a20 = x0.fma(y2, a20);
                a21 = x1.fma(y2, a21);
                FloatVector y3 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 3 * BLOCK + 1]);
                a30 = x0.fma(y3, a30);
                a31 = x1.fma(y3, a31);
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
        a01.intoArray(o, oo + 0 * headDim + 1 * Lanes.COUNT);
        a10.intoArray(o, oo + 1 * headDim + 0 * Lanes.COUNT);
        a11.intoArray(o, oo + 1 * headDim + 1 * Lanes.COUNT);
        a20.intoArray(o, oo + 2 * headDim + 0 * Lanes.COUNT);
        a21.intoArray(o, oo + 2 * headDim + 1 * Lanes.COUNT);
        a30.intoArray(o, oo + 3 * headDim + 0 * Lanes.COUNT);
        a31.intoArray(o, oo + 3 * headDim + 1 * Lanes.COUNT);
    }

    private static void broadWeigh4(long from, int rows, int step, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 3 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 1 * Lanes.COUNT);
        FloatVector a22 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 2 * Lanes.COUNT);
        FloatVector a23 = FloatVector.fromArray(Lanes.F, o, oo + 2 * headDim + 3 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 1 * Lanes.COUNT);
        FloatVector a32 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 2 * Lanes.COUNT);
        FloatVector a33 = FloatVector.fromArray(Lanes.F, o, oo + 3 * headDim + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 0 * BLOCK]);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 1 * BLOCK]);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 2 * BLOCK]);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 3 * BLOCK]);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            a00 = x0.fma(y0, a00);
            a10 = x0.fma(y1, a10);
            a20 = x0.fma(y2, a20);
            a30 = x0.fma(y3, a30);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            a01 = x1.fma(y0, a01);
            a11 = x1.fma(y1, a11);
            a21 = x1.fma(y2, a21);
            a31 = x1.fma(y3, a31);
            FloatVector x2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
            a02 = x2.fma(y0, a02);
            a12 = x2.fma(y1, a12);
            a22 = x2.fma(y2, a22);
            a32 = x2.fma(y3, a32);
            FloatVector x3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
            a03 = x3.fma(y0, a03);
            a13 = x3.fma(y1, a13);
            a23 = x3.fma(y2, a23);
            a33 = x3.fma(y3, a33);
            if (PAIRED) {
                FloatVector z0 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 0 * BLOCK + 1]);
                FloatVector z1 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 1 * BLOCK + 1]);
                FloatVector z2 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 2 * BLOCK + 1]);
                FloatVector z3 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 3 * BLOCK + 1]);
                FloatVector u0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a00 = u0.fma(z0, a00);
                a10 = u0.fma(z1, a10);
                a20 = u0.fma(z2, a20);
                a30 = u0.fma(z3, a30);
                FloatVector u1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a01 = u1.fma(z0, a01);
                a11 = u1.fma(z1, a11);
                a21 = u1.fma(z2, a21);
                a31 = u1.fma(z3, a31);
                FloatVector u2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a02 = u2.fma(z0, a02);
                a12 = u2.fma(z1, a12);
                a22 = u2.fma(z2, a22);
                a32 = u2.fma(z3, a32);
                FloatVector u3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                a03 = u3.fma(z0, a03);
                a13 = u3.fma(z1, a13);
                a23 = u3.fma(z2, a23);
                a33 = u3.fma(z3, a33);
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
        a01.intoArray(o, oo + 0 * headDim + 1 * Lanes.COUNT);
        a02.intoArray(o, oo + 0 * headDim + 2 * Lanes.COUNT);
        a03.intoArray(o, oo + 0 * headDim + 3 * Lanes.COUNT);
        a10.intoArray(o, oo + 1 * headDim + 0 * Lanes.COUNT);
        a11.intoArray(o, oo + 1 * headDim + 1 * Lanes.COUNT);
        a12.intoArray(o, oo + 1 * headDim + 2 * Lanes.COUNT);
        a13.intoArray(o, oo + 1 * headDim + 3 * Lanes.COUNT);
        a20.intoArray(o, oo + 2 * headDim + 0 * Lanes.COUNT);
        a21.intoArray(o, oo + 2 * headDim + 1 * Lanes.COUNT);
        a22.intoArray(o, oo + 2 * headDim + 2 * Lanes.COUNT);
        a23.intoArray(o, oo + 2 * headDim + 3 * Lanes.COUNT);
        a30.intoArray(o, oo + 3 * headDim + 0 * Lanes.COUNT);
        a31.intoArray(o, oo + 3 * headDim + 1 * Lanes.COUNT);
        a32.intoArray(o, oo + 3 * headDim + 2 * Lanes.COUNT);
        a33.intoArray(o, oo + 3 * headDim + 3 * Lanes.COUNT);
    }

    private static void weigh2(long from, int rows, int step, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            FloatVector x2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector x3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 0 * BLOCK]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            a02 = x2.fma(y0, a02);
            a03 = x3.fma(y0, a03);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 1 * BLOCK]);
            a10 = x0.fma(y1, a10);
            a11 = x1.fma(y1, a11);
            a12 = x2.fma(y1, a12);
            a13 = x3.fma(y1, a13);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                FloatVector x1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                FloatVector x2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector x3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 0 * BLOCK + 1]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                a02 = x2.fma(y0, a02);
                a03 = x3.fma(y0, a03);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 1 * BLOCK + 1]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                a12 = x2.fma(y1, a12);
                a13 = x3.fma(y1, a13);
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
        a01.intoArray(o, oo + 0 * headDim + 1 * Lanes.COUNT);
        a02.intoArray(o, oo + 0 * headDim + 2 * Lanes.COUNT);
        a03.intoArray(o, oo + 0 * headDim + 3 * Lanes.COUNT);
        a10.intoArray(o, oo + 1 * headDim + 0 * Lanes.COUNT);
        a11.intoArray(o, oo + 1 * headDim + 1 * Lanes.COUNT);
        a12.intoArray(o, oo + 1 * headDim + 2 * Lanes.COUNT);
        a13.intoArray(o, oo + 1 * headDim + 3 * Lanes.COUNT);
    }

    private static void weigh1(long from, int rows, int step, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row]);
            a00 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats().fma(y0, a00);
            a01 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats().fma(y0, a01);
            a02 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats().fma(y0, a02);
            a03 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats().fma(y0, a03);
            if (PAIRED) {
                FloatVector y1 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row + 1]);
                a00 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a00);
                a01 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a01);
                a02 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a02);
                a03 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats().fma(y1, a03);
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
        a01.intoArray(o, oo + 0 * headDim + 1 * Lanes.COUNT);
        a02.intoArray(o, oo + 0 * headDim + 2 * Lanes.COUNT);
        a03.intoArray(o, oo + 0 * headDim + 3 * Lanes.COUNT);
    }

    private static void narrow1(long from, int rows, int step, float[] p, int po, float[] o, int oo) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + (PAIRED ? 2 : 1) * row]);
            a00 = x0.fma(y0, a00);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, p[po + 2 * row + 1]);
                a00 = x0.fma(y0, a00);
            }
        }
        a00.intoArray(o, oo);
    }
}
