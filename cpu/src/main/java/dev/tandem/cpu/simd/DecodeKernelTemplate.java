package dev.tandem.cpu.simd;

import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.tandem.model.config.DataType;
import java.lang.invoke.MethodHandles;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;

/**
 * The inner loops of decode attention over blocks of 64 tokens (see {@code decode.BlockFormat}), for 1, 2 or 4 query
 * heads that share each load. Written out by hand: in large methods, helpers that take or return vectors stop being
 * inlined, and then vectors become objects.
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
    private static final int PAGE = 4096;
    private static final int VECTOR = 4 * Lanes.COUNT;
    /** Lanes that one call of a wide kernel computes. */
    private static final int WIDE = 4 * Lanes.COUNT;

    private static DataType type() {
        try {
            return MethodHandles.classData(MethodHandles.lookup(), "_", DataType.class);
        } catch (IllegalAccessException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** Rows of one page of 4 KiB are a stream to the memory; several at once hide more of its latency. */
    private static int streams(int rows, int rowBytes) {
        int pages = rows * rowBytes / PAGE;
        return pages > 1 && rows % pages == 0 ? pages : 1;
    }

    @Override
    public void scores(int heads, long k, int keyRows, float[] q, int qo, float[] s, int so) {
        for (int token = 0; token < BLOCK; token += WIDE) {
            switch (heads) {
                case 1 -> scores1(k + 4L * token, keyRows, q, qo, s, so + token);
                case 2 -> scores2(k + 4L * token, keyRows, q, qo, s, so + token);
                default -> scores4(k + 4L * token, keyRows, q, qo, s, so + token);
            }
        }
    }

    @Override
    public void weigh(int heads, long v, int headDim, int tokens, float[] p, int po, float[] o, int oo) {
        int rows = PAIRED ? (tokens + 1) / 2 : tokens;
        int dim = 0;
        for (; dim + WIDE <= headDim; dim += WIDE) {
            switch (heads) {
                case 1 -> weigh1(v + 4L * dim, rows, p, po, o, oo + dim, headDim);
                case 2 -> weigh2(v + 4L * dim, rows, p, po, o, oo + dim, headDim);
                default -> weigh4(v + 4L * dim, rows, p, po, o, oo + dim, headDim);
            }
        }
        for (; dim < headDim; dim += Lanes.COUNT) {
            for (int head = 0; head < heads; head++) {
                narrow1(v + 4L * dim, rows, p, po + head * BLOCK, o, oo + head * headDim + dim, headDim);
            }
        }
    }

    private static void scores4(long k, int keyRows, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.zero(Lanes.F);
        FloatVector a01 = FloatVector.zero(Lanes.F);
        FloatVector a02 = FloatVector.zero(Lanes.F);
        FloatVector a03 = FloatVector.zero(Lanes.F);
        FloatVector a10 = FloatVector.zero(Lanes.F);
        FloatVector a11 = FloatVector.zero(Lanes.F);
        FloatVector a12 = FloatVector.zero(Lanes.F);
        FloatVector a13 = FloatVector.zero(Lanes.F);
        FloatVector a20 = FloatVector.zero(Lanes.F);
        FloatVector a21 = FloatVector.zero(Lanes.F);
        FloatVector a22 = FloatVector.zero(Lanes.F);
        FloatVector a23 = FloatVector.zero(Lanes.F);
        FloatVector a30 = FloatVector.zero(Lanes.F);
        FloatVector a31 = FloatVector.zero(Lanes.F);
        FloatVector a32 = FloatVector.zero(Lanes.F);
        FloatVector a33 = FloatVector.zero(Lanes.F);
        int streams = streams(keyRows, ROW);
        int step = keyRows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < keyRows; row += step) {
                long at = k + (long) row * ROW;
                int qi = qo + row * (PAIRED ? 8 : 4);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector q0 = FloatVector.broadcast(Lanes.F, q[qi + 0]);
                a00 = e0.fma(q0, a00);
                a01 = e1.fma(q0, a01);
                a02 = e2.fma(q0, a02);
                a03 = e3.fma(q0, a03);
                FloatVector q1 = FloatVector.broadcast(Lanes.F, q[qi + 1]);
                a10 = e0.fma(q1, a10);
                a11 = e1.fma(q1, a11);
                a12 = e2.fma(q1, a12);
                a13 = e3.fma(q1, a13);
                FloatVector q2 = FloatVector.broadcast(Lanes.F, q[qi + 2]);
                a20 = e0.fma(q2, a20);
                a21 = e1.fma(q2, a21);
                a22 = e2.fma(q2, a22);
                a23 = e3.fma(q2, a23);
                FloatVector q3 = FloatVector.broadcast(Lanes.F, q[qi + 3]);
                a30 = e0.fma(q3, a30);
                a31 = e1.fma(q3, a31);
                a32 = e2.fma(q3, a32);
                a33 = e3.fma(q3, a33);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, q[qi + 4 + 0]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                    FloatVector r1 = FloatVector.broadcast(Lanes.F, q[qi + 4 + 1]);
                    a10 = o0.fma(r1, a10);
                    a11 = o1.fma(r1, a11);
                    a12 = o2.fma(r1, a12);
                    a13 = o3.fma(r1, a13);
                    FloatVector r2 = FloatVector.broadcast(Lanes.F, q[qi + 4 + 2]);
                    a20 = o0.fma(r2, a20);
                    a21 = o1.fma(r2, a21);
                    a22 = o2.fma(r2, a22);
                    a23 = o3.fma(r2, a23);
                    FloatVector r3 = FloatVector.broadcast(Lanes.F, q[qi + 4 + 3]);
                    a30 = o0.fma(r3, a30);
                    a31 = o1.fma(r3, a31);
                    a32 = o2.fma(r3, a32);
                    a33 = o3.fma(r3, a33);
                }
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

    private static void scores2(long k, int keyRows, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.zero(Lanes.F);
        FloatVector a01 = FloatVector.zero(Lanes.F);
        FloatVector a02 = FloatVector.zero(Lanes.F);
        FloatVector a03 = FloatVector.zero(Lanes.F);
        FloatVector a10 = FloatVector.zero(Lanes.F);
        FloatVector a11 = FloatVector.zero(Lanes.F);
        FloatVector a12 = FloatVector.zero(Lanes.F);
        FloatVector a13 = FloatVector.zero(Lanes.F);
        int streams = streams(keyRows, ROW);
        int step = keyRows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < keyRows; row += step) {
                long at = k + (long) row * ROW;
                int qi = qo + row * (PAIRED ? 4 : 2);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector q0 = FloatVector.broadcast(Lanes.F, q[qi + 0]);
                a00 = e0.fma(q0, a00);
                a01 = e1.fma(q0, a01);
                a02 = e2.fma(q0, a02);
                a03 = e3.fma(q0, a03);
                FloatVector q1 = FloatVector.broadcast(Lanes.F, q[qi + 1]);
                a10 = e0.fma(q1, a10);
                a11 = e1.fma(q1, a11);
                a12 = e2.fma(q1, a12);
                a13 = e3.fma(q1, a13);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, q[qi + 2 + 0]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                    FloatVector r1 = FloatVector.broadcast(Lanes.F, q[qi + 2 + 1]);
                    a10 = o0.fma(r1, a10);
                    a11 = o1.fma(r1, a11);
                    a12 = o2.fma(r1, a12);
                    a13 = o3.fma(r1, a13);
                }
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

    private static void scores1(long k, int keyRows, float[] q, int qo, float[] s, int so) {
        FloatVector a00 = FloatVector.zero(Lanes.F);
        FloatVector a01 = FloatVector.zero(Lanes.F);
        FloatVector a02 = FloatVector.zero(Lanes.F);
        FloatVector a03 = FloatVector.zero(Lanes.F);
        int streams = streams(keyRows, ROW);
        int step = keyRows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < keyRows; row += step) {
                long at = k + (long) row * ROW;
                int qi = qo + row * (PAIRED ? 2 : 1);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector q0 = FloatVector.broadcast(Lanes.F, q[qi + 0]);
                a00 = e0.fma(q0, a00);
                a01 = e1.fma(q0, a01);
                a02 = e2.fma(q0, a02);
                a03 = e3.fma(q0, a03);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, q[qi + 1 + 0]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                }
            }
        }
        a00.intoArray(s, so + 0 * BLOCK + 0 * Lanes.COUNT);
        a01.intoArray(s, so + 0 * BLOCK + 1 * Lanes.COUNT);
        a02.intoArray(s, so + 0 * BLOCK + 2 * Lanes.COUNT);
        a03.intoArray(s, so + 0 * BLOCK + 3 * Lanes.COUNT);
    }

    private static void weigh4(long v, int rows, float[] p, int po, float[] o, int oo, int headDim) {
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
        int streams = streams(rows, 4 * headDim);
        int step = rows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < rows; row += step) {
                long at = v + 4L * row * headDim;
                int pi = po + (PAIRED ? 2 * row : row);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector p0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK]);
                a00 = e0.fma(p0, a00);
                a01 = e1.fma(p0, a01);
                a02 = e2.fma(p0, a02);
                a03 = e3.fma(p0, a03);
                FloatVector p1 = FloatVector.broadcast(Lanes.F, p[pi + 1 * BLOCK]);
                a10 = e0.fma(p1, a10);
                a11 = e1.fma(p1, a11);
                a12 = e2.fma(p1, a12);
                a13 = e3.fma(p1, a13);
                FloatVector p2 = FloatVector.broadcast(Lanes.F, p[pi + 2 * BLOCK]);
                a20 = e0.fma(p2, a20);
                a21 = e1.fma(p2, a21);
                a22 = e2.fma(p2, a22);
                a23 = e3.fma(p2, a23);
                FloatVector p3 = FloatVector.broadcast(Lanes.F, p[pi + 3 * BLOCK]);
                a30 = e0.fma(p3, a30);
                a31 = e1.fma(p3, a31);
                a32 = e2.fma(p3, a32);
                a33 = e3.fma(p3, a33);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK + 1]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                    FloatVector r1 = FloatVector.broadcast(Lanes.F, p[pi + 1 * BLOCK + 1]);
                    a10 = o0.fma(r1, a10);
                    a11 = o1.fma(r1, a11);
                    a12 = o2.fma(r1, a12);
                    a13 = o3.fma(r1, a13);
                    FloatVector r2 = FloatVector.broadcast(Lanes.F, p[pi + 2 * BLOCK + 1]);
                    a20 = o0.fma(r2, a20);
                    a21 = o1.fma(r2, a21);
                    a22 = o2.fma(r2, a22);
                    a23 = o3.fma(r2, a23);
                    FloatVector r3 = FloatVector.broadcast(Lanes.F, p[pi + 3 * BLOCK + 1]);
                    a30 = o0.fma(r3, a30);
                    a31 = o1.fma(r3, a31);
                    a32 = o2.fma(r3, a32);
                    a33 = o3.fma(r3, a33);
                }
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

    private static void weigh2(long v, int rows, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, o, oo + 1 * headDim + 3 * Lanes.COUNT);
        int streams = streams(rows, 4 * headDim);
        int step = rows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < rows; row += step) {
                long at = v + 4L * row * headDim;
                int pi = po + (PAIRED ? 2 * row : row);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector p0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK]);
                a00 = e0.fma(p0, a00);
                a01 = e1.fma(p0, a01);
                a02 = e2.fma(p0, a02);
                a03 = e3.fma(p0, a03);
                FloatVector p1 = FloatVector.broadcast(Lanes.F, p[pi + 1 * BLOCK]);
                a10 = e0.fma(p1, a10);
                a11 = e1.fma(p1, a11);
                a12 = e2.fma(p1, a12);
                a13 = e3.fma(p1, a13);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK + 1]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                    FloatVector r1 = FloatVector.broadcast(Lanes.F, p[pi + 1 * BLOCK + 1]);
                    a10 = o0.fma(r1, a10);
                    a11 = o1.fma(r1, a11);
                    a12 = o2.fma(r1, a12);
                    a13 = o3.fma(r1, a13);
                }
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

    private static void weigh1(long v, int rows, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 3 * Lanes.COUNT);
        int streams = streams(rows, 4 * headDim);
        int step = rows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < rows; row += step) {
                long at = v + 4L * row * headDim;
                int pi = po + (PAIRED ? 2 * row : row);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
                IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
                IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector e1 = (BF16 ? w1.lanewise(LSHL, 16) : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1).reinterpretAsFloats();
                FloatVector e2 = (BF16 ? w2.lanewise(LSHL, 16) : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2).reinterpretAsFloats();
                FloatVector e3 = (BF16 ? w3.lanewise(LSHL, 16) : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3).reinterpretAsFloats();
                FloatVector p0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK]);
                a00 = e0.fma(p0, a00);
                a01 = e1.fma(p0, a01);
                a02 = e2.fma(p0, a02);
                a03 = e3.fma(p0, a03);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o1 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o2 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector o3 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK + 1]);
                    a00 = o0.fma(r0, a00);
                    a01 = o1.fma(r0, a01);
                    a02 = o2.fma(r0, a02);
                    a03 = o3.fma(r0, a03);
                }
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
        a01.intoArray(o, oo + 0 * headDim + 1 * Lanes.COUNT);
        a02.intoArray(o, oo + 0 * headDim + 2 * Lanes.COUNT);
        a03.intoArray(o, oo + 0 * headDim + 3 * Lanes.COUNT);
    }

    private static void narrow1(long v, int rows, float[] p, int po, float[] o, int oo, int headDim) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, o, oo + 0 * headDim + 0 * Lanes.COUNT);
        int streams = streams(rows, 4 * headDim);
        int step = rows / streams;
        for (int i = 0; i < step; i++) {
            for (int row = i; row < rows; row += step) {
                long at = v + 4L * row * headDim;
                int pi = po + (PAIRED ? 2 * row : row);
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector e0 = (BF16 ? w0.lanewise(LSHL, 16) : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0).reinterpretAsFloats();
                FloatVector p0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK]);
                a00 = e0.fma(p0, a00);
                if (PAIRED) {
                    FloatVector o0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                    FloatVector r0 = FloatVector.broadcast(Lanes.F, p[pi + 0 * BLOCK + 1]);
                    a00 = o0.fma(r0, a00);
                }
            }
        }
        a00.intoArray(o, oo + 0 * headDim + 0 * Lanes.COUNT);
    }
}
