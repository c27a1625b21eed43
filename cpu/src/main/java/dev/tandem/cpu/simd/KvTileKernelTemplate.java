package dev.tandem.cpu.simd;

import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.LSHL;

import dev.tandem.model.config.DataType;
import java.lang.invoke.MethodHandles;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;

/**
 * Computes a tile strip by strip; a template for {@link KvTileKernel#of}, which loads it once per data type and tile.
 * Both are constants for the JIT compiler, so one source serves all of them at full speed.
 *
 * <p>Why the code looks as it does:
 *
 * <ul>
 *   <li>Every number of heads is written out by hand. In large methods the compiler stops inlining helpers that take or
 *       return vectors, and then allocates these vectors as objects.
 *   <li>With several heads and 16 registers, the values that share a lane are computed in two passes, the lower halves
 *       first. The compiler moves all loads of a pass to its start, and the loads of both passes need more registers.
 *   <li>With 32 registers and four heads there are sixteen sums, and both halves are computed in one pass.
 *   <li>Loops count rows by one and index arrays with constant strides; otherwise each access is bounds-checked.
 * </ul>
 */
final class KvTileKernelTemplate implements KvTileKernel {
    private static final Kind KIND = kind();
    private static final boolean BF16 = KIND.type() == DataType.BFLOAT16;
    private static final boolean FP16 = KIND.type() == DataType.FLOAT16;
    /** Whether two values share a 32-bit lane. */
    private static final boolean PAIRED = BF16 || FP16;

    /** Mask of the bf16 value in a lane's upper half. */
    private static final int HIGH = 0xFFFF0000;
    /** Mask of fp16's sign, exponent and mantissa, shifted to where fp32 has them; gives the value times 2^-112. */
    private static final int HALF = 0x8FFFE000;

    /** Bytes per vector. */
    private static final long VECTOR = 4L * Lanes.COUNT;

    private static final boolean KEYS = KIND.tile() == Tile.K;
    /** Distance between the factors of two heads. */
    private static final int HEAD = KEYS ? 1 : BLOCK;
    /** Distance between the factors of two rows, for 1, 2 and 4 heads. */
    private static final int ROW_OF_1 = PAIRED ? 2 : 1;

    private static final int ROW_OF_2 = ROW_OF_1 * (KEYS ? 2 : 1);
    private static final int ROW_OF_4 = ROW_OF_1 * (KEYS ? 4 : 1);
    /** Distance from the factor of a lane's lower value to that of its upper value, for 1, 2 and 4 heads. */
    private static final int HIGH_OF_1 = 1;

    private static final int HIGH_OF_2 = KEYS ? 2 : 1;
    private static final int HIGH_OF_4 = KEYS ? 4 : 1;

    private static Kind kind() {
        try {
            return MethodHandles.classData(MethodHandles.lookup(), "_", Kind.class);
        } catch (IllegalAccessException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    @Override
    public void add(
            int heads,
            long tile,
            int rows,
            int width,
            int lanes,
            float[] factors,
            int fo,
            float[] sums,
            int so,
            int stride,
            Prefetch.Ahead ahead) {
        int rowsPerChunk = CHUNK / width;
        for (int row = 0; row < rows; row += rowsPerChunk) {
            int chunkRows = Math.min(rowsPerChunk, rows - row);
            long from = tile + (long) row * width;
            int fi = fo + row * ROW_OF_1 * (KEYS ? heads : 1);
            for (int lane = 0; lane < lanes; ) {
                int strip = KvTileKernel.strip(heads, lanes - lane);
                if (KEYS || strip <= lanes - lane) { // K: scores after the last token are undefined
                    ahead.prefetchPiece();
                    strip(heads, strip, from + 4L * lane, chunkRows, width, factors, fi, sums, so + lane, stride);
                    lane += strip;
                } else {
                    for (int head = 0; head < heads; head++) {
                        narrow(
                                from + 4L * lane,
                                chunkRows,
                                width,
                                factors,
                                fi + head * HEAD,
                                sums,
                                so + head * stride + lane);
                    }
                    lane += Lanes.COUNT;
                }
            }
        }
    }

    private static void strip(
            int heads,
            int strip,
            long from,
            int rows,
            int step,
            float[] factors,
            int fo,
            float[] sums,
            int so,
            int stride) {
        switch (heads) {
            case 1 -> one(from, rows, step, factors, fo, sums, so, stride);
            case 2 -> two(from, rows, step, factors, fo, sums, so, stride);
            default -> {
                if (strip == 2 * Lanes.COUNT) {
                    four(from, rows, step, factors, fo, sums, so, stride);
                } else {
                    fourWide(from, rows, step, factors, fo, sums, so, stride);
                }
            }
        }
    }

    private static void four(long from, int rows, int step, float[] factors, int fo, float[] sums, int so, int stride) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 1 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 1 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 1 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 1 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16
                            ? w0.lanewise(LSHL, 16)
                            : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0)
                    .reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16
                            ? w1.lanewise(LSHL, 16)
                            : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1)
                    .reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 0 * HEAD]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 1 * HEAD]);
            a10 = x0.fma(y1, a10);
            a11 = x1.fma(y1, a11);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 2 * HEAD]);
            a20 = x0.fma(y2, a20);
            a21 = x1.fma(y2, a21);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 3 * HEAD]);
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
                FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 0 * HEAD + HIGH_OF_4]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 1 * HEAD + HIGH_OF_4]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                FloatVector y2 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 2 * HEAD + HIGH_OF_4]);
                a20 = x0.fma(y2, a20);
                a21 = x1.fma(y2, a21);
                FloatVector y3 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 3 * HEAD + HIGH_OF_4]);
                a30 = x0.fma(y3, a30);
                a31 = x1.fma(y3, a31);
            }
        }
        a00.intoArray(sums, so + 0 * stride + 0 * Lanes.COUNT);
        a01.intoArray(sums, so + 0 * stride + 1 * Lanes.COUNT);
        a10.intoArray(sums, so + 1 * stride + 0 * Lanes.COUNT);
        a11.intoArray(sums, so + 1 * stride + 1 * Lanes.COUNT);
        a20.intoArray(sums, so + 2 * stride + 0 * Lanes.COUNT);
        a21.intoArray(sums, so + 2 * stride + 1 * Lanes.COUNT);
        a30.intoArray(sums, so + 3 * stride + 0 * Lanes.COUNT);
        a31.intoArray(sums, so + 3 * stride + 1 * Lanes.COUNT);
    }

    private static void fourWide(
            long from, int rows, int step, float[] factors, int fo, float[] sums, int so, int stride) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 3 * Lanes.COUNT);
        FloatVector a20 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 0 * Lanes.COUNT);
        FloatVector a21 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 1 * Lanes.COUNT);
        FloatVector a22 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 2 * Lanes.COUNT);
        FloatVector a23 = FloatVector.fromArray(Lanes.F, sums, so + 2 * stride + 3 * Lanes.COUNT);
        FloatVector a30 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 0 * Lanes.COUNT);
        FloatVector a31 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 1 * Lanes.COUNT);
        FloatVector a32 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 2 * Lanes.COUNT);
        FloatVector a33 = FloatVector.fromArray(Lanes.F, sums, so + 3 * stride + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 0 * HEAD]);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 1 * HEAD]);
            FloatVector y2 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 2 * HEAD]);
            FloatVector y3 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 3 * HEAD]);
            FloatVector x0 = (BF16
                            ? w0.lanewise(LSHL, 16)
                            : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0)
                    .reinterpretAsFloats();
            a00 = x0.fma(y0, a00);
            a10 = x0.fma(y1, a10);
            a20 = x0.fma(y2, a20);
            a30 = x0.fma(y3, a30);
            FloatVector x1 = (BF16
                            ? w1.lanewise(LSHL, 16)
                            : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1)
                    .reinterpretAsFloats();
            a01 = x1.fma(y0, a01);
            a11 = x1.fma(y1, a11);
            a21 = x1.fma(y2, a21);
            a31 = x1.fma(y3, a31);
            FloatVector x2 = (BF16
                            ? w2.lanewise(LSHL, 16)
                            : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2)
                    .reinterpretAsFloats();
            a02 = x2.fma(y0, a02);
            a12 = x2.fma(y1, a12);
            a22 = x2.fma(y2, a22);
            a32 = x2.fma(y3, a32);
            FloatVector x3 = (BF16
                            ? w3.lanewise(LSHL, 16)
                            : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3)
                    .reinterpretAsFloats();
            a03 = x3.fma(y0, a03);
            a13 = x3.fma(y1, a13);
            a23 = x3.fma(y2, a23);
            a33 = x3.fma(y3, a33);
            if (PAIRED) {
                FloatVector z0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 0 * HEAD + HIGH_OF_4]);
                FloatVector z1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 1 * HEAD + HIGH_OF_4]);
                FloatVector z2 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 2 * HEAD + HIGH_OF_4]);
                FloatVector z3 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_4 * row + 3 * HEAD + HIGH_OF_4]);
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
        a00.intoArray(sums, so + 0 * stride + 0 * Lanes.COUNT);
        a01.intoArray(sums, so + 0 * stride + 1 * Lanes.COUNT);
        a02.intoArray(sums, so + 0 * stride + 2 * Lanes.COUNT);
        a03.intoArray(sums, so + 0 * stride + 3 * Lanes.COUNT);
        a10.intoArray(sums, so + 1 * stride + 0 * Lanes.COUNT);
        a11.intoArray(sums, so + 1 * stride + 1 * Lanes.COUNT);
        a12.intoArray(sums, so + 1 * stride + 2 * Lanes.COUNT);
        a13.intoArray(sums, so + 1 * stride + 3 * Lanes.COUNT);
        a20.intoArray(sums, so + 2 * stride + 0 * Lanes.COUNT);
        a21.intoArray(sums, so + 2 * stride + 1 * Lanes.COUNT);
        a22.intoArray(sums, so + 2 * stride + 2 * Lanes.COUNT);
        a23.intoArray(sums, so + 2 * stride + 3 * Lanes.COUNT);
        a30.intoArray(sums, so + 3 * stride + 0 * Lanes.COUNT);
        a31.intoArray(sums, so + 3 * stride + 1 * Lanes.COUNT);
        a32.intoArray(sums, so + 3 * stride + 2 * Lanes.COUNT);
        a33.intoArray(sums, so + 3 * stride + 3 * Lanes.COUNT);
    }

    private static void two(long from, int rows, int step, float[] factors, int fo, float[] sums, int so, int stride) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 3 * Lanes.COUNT);
        FloatVector a10 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 0 * Lanes.COUNT);
        FloatVector a11 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 1 * Lanes.COUNT);
        FloatVector a12 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 2 * Lanes.COUNT);
        FloatVector a13 = FloatVector.fromArray(Lanes.F, sums, so + 1 * stride + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16
                            ? w0.lanewise(LSHL, 16)
                            : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0)
                    .reinterpretAsFloats();
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            FloatVector x1 = (BF16
                            ? w1.lanewise(LSHL, 16)
                            : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1)
                    .reinterpretAsFloats();
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            FloatVector x2 = (BF16
                            ? w2.lanewise(LSHL, 16)
                            : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2)
                    .reinterpretAsFloats();
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector x3 = (BF16
                            ? w3.lanewise(LSHL, 16)
                            : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3)
                    .reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_2 * row + 0 * HEAD]);
            a00 = x0.fma(y0, a00);
            a01 = x1.fma(y0, a01);
            a02 = x2.fma(y0, a02);
            a03 = x3.fma(y0, a03);
            FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_2 * row + 1 * HEAD]);
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
                FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_2 * row + 0 * HEAD + HIGH_OF_2]);
                a00 = x0.fma(y0, a00);
                a01 = x1.fma(y0, a01);
                a02 = x2.fma(y0, a02);
                a03 = x3.fma(y0, a03);
                FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_2 * row + 1 * HEAD + HIGH_OF_2]);
                a10 = x0.fma(y1, a10);
                a11 = x1.fma(y1, a11);
                a12 = x2.fma(y1, a12);
                a13 = x3.fma(y1, a13);
            }
        }
        a00.intoArray(sums, so + 0 * stride + 0 * Lanes.COUNT);
        a01.intoArray(sums, so + 0 * stride + 1 * Lanes.COUNT);
        a02.intoArray(sums, so + 0 * stride + 2 * Lanes.COUNT);
        a03.intoArray(sums, so + 0 * stride + 3 * Lanes.COUNT);
        a10.intoArray(sums, so + 1 * stride + 0 * Lanes.COUNT);
        a11.intoArray(sums, so + 1 * stride + 1 * Lanes.COUNT);
        a12.intoArray(sums, so + 1 * stride + 2 * Lanes.COUNT);
        a13.intoArray(sums, so + 1 * stride + 3 * Lanes.COUNT);
    }

    private static void one(long from, int rows, int step, float[] factors, int fo, float[] sums, int so, int stride) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 0 * Lanes.COUNT);
        FloatVector a01 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 1 * Lanes.COUNT);
        FloatVector a02 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 2 * Lanes.COUNT);
        FloatVector a03 = FloatVector.fromArray(Lanes.F, sums, so + 0 * stride + 3 * Lanes.COUNT);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            IntVector w1 = Lanes.loadInts(at + 1 * VECTOR);
            IntVector w2 = Lanes.loadInts(at + 2 * VECTOR);
            IntVector w3 = Lanes.loadInts(at + 3 * VECTOR);
            FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_1 * row]);
            a00 = (BF16
                            ? w0.lanewise(LSHL, 16)
                            : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0)
                    .reinterpretAsFloats()
                    .fma(y0, a00);
            a01 = (BF16
                            ? w1.lanewise(LSHL, 16)
                            : FP16 ? w1.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w1)
                    .reinterpretAsFloats()
                    .fma(y0, a01);
            a02 = (BF16
                            ? w2.lanewise(LSHL, 16)
                            : FP16 ? w2.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w2)
                    .reinterpretAsFloats()
                    .fma(y0, a02);
            a03 = (BF16
                            ? w3.lanewise(LSHL, 16)
                            : FP16 ? w3.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w3)
                    .reinterpretAsFloats()
                    .fma(y0, a03);
            if (PAIRED) {
                FloatVector y1 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_1 * row + HIGH_OF_1]);
                a00 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF))
                        .reinterpretAsFloats()
                        .fma(y1, a00);
                a01 = (BF16 ? w1.and(HIGH) : w1.lanewise(ASHR, 3).and(HALF))
                        .reinterpretAsFloats()
                        .fma(y1, a01);
                a02 = (BF16 ? w2.and(HIGH) : w2.lanewise(ASHR, 3).and(HALF))
                        .reinterpretAsFloats()
                        .fma(y1, a02);
                a03 = (BF16 ? w3.and(HIGH) : w3.lanewise(ASHR, 3).and(HALF))
                        .reinterpretAsFloats()
                        .fma(y1, a03);
            }
        }
        a00.intoArray(sums, so + 0 * stride + 0 * Lanes.COUNT);
        a01.intoArray(sums, so + 0 * stride + 1 * Lanes.COUNT);
        a02.intoArray(sums, so + 0 * stride + 2 * Lanes.COUNT);
        a03.intoArray(sums, so + 0 * stride + 3 * Lanes.COUNT);
    }

    private static void narrow(long from, int rows, int step, float[] factors, int fo, float[] sums, int so) {
        FloatVector a00 = FloatVector.fromArray(Lanes.F, sums, so);
        for (int row = 0; row < rows; row++) {
            long at = from + (long) row * step;
            IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
            FloatVector x0 = (BF16
                            ? w0.lanewise(LSHL, 16)
                            : FP16 ? w0.lanewise(LSHL, 16).lanewise(ASHR, 3).and(HALF) : w0)
                    .reinterpretAsFloats();
            FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_1 * row]);
            a00 = x0.fma(y0, a00);
        }
        if (PAIRED) {
            for (int row = 0; row < rows; row++) {
                long at = from + (long) row * step;
                IntVector w0 = Lanes.loadInts(at + 0 * VECTOR);
                FloatVector x0 = (BF16 ? w0.and(HIGH) : w0.lanewise(ASHR, 3).and(HALF)).reinterpretAsFloats();
                FloatVector y0 = FloatVector.broadcast(Lanes.F, factors[fo + ROW_OF_1 * row + HIGH_OF_1]);
                a00 = x0.fma(y0, a00);
            }
        }
        a00.intoArray(sums, so);
    }
}
