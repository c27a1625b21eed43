package dev.tandem.cpu.simd;

import static dev.tandem.cpu.simd.Lanes.LE;
import static dev.tandem.cpu.simd.Lanes.MEMORY;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * GEMV with, and unpacking of, {@link PackedMatrix.Quantised} panels. A field (one quant in a word) is masked but not
 * shifted, which gives quant · 2^shift; the scale is multiplied by 2^-shift once per block. Each step except the last
 * addition is exact. The weights therefore equal those of the file unpacked to fp32, and the results equal those of
 * {@link TileKernel} on these weights.
 *
 * <p>Methods of their own widen a block's scales, through scratch memory. In one method with the GEMV the compiler
 * would reach its inlining limit and allocate vectors as objects, which is 7 times slower.
 */
final class QuantisedKernel {
    private static final int BLOCK = PackedMatrix.Quantised.BLOCK;
    private static final int VECTOR = 4 * Lanes.COUNT;
    private static final int NIBBLE_0 = 0xF;
    private static final int NIBBLE_1 = 0xF0;
    private static final int NIBBLE_4 = 0xF0000;
    private static final int NIBBLE_5 = 0xF00000;
    private static final int BYTE_0 = 0xFF;
    private static final int BYTE_1 = 0xFF00;
    private static final int BYTE_2 = 0xFF0000;

    private static final VectorOperators.Conversion<Integer, Float> I2F = VectorOperators.I2F;
    private static final VectorOperators.Binary LSHR = VectorOperators.LSHR;

    private QuantisedKernel() {}

    /** Widens the scales of a 4-bit block for fields 0, 1, 4 and 5, and both minimums: six vectors at {@code to}. */
    private static void widen4(long at, long to) {
        IntVector scales = Lanes.loadInts(at);
        FloatVector low = Unpack.lowHalf(scales);
        FloatVector high = Unpack.highHalf(scales);
        IntVector minimums = Lanes.loadInts(at + VECTOR);
        store(low, to);
        store(low.mul(0x1p-4f), to + VECTOR);
        store(high.mul(0x1p-16f), to + 2L * VECTOR);
        store(high.mul(0x1p-20f), to + 3L * VECTOR);
        store(Unpack.lowHalf(minimums), to + 4L * VECTOR);
        store(Unpack.highHalf(minimums), to + 5L * VECTOR);
    }

    /** Widens the scales of an 8-bit block for fields 0, 1, 2 and 3, and both minimums: six vectors at {@code to}. */
    private static void widen8(long at, long to) {
        IntVector scales = Lanes.loadInts(at);
        FloatVector low = Unpack.lowHalf(scales);
        FloatVector high = Unpack.highHalf(scales);
        store(low, to);
        store(low.mul(0x1p-8f), to + VECTOR);
        store(high.mul(0x1p-16f), to + 2L * VECTOR);
        store(high, to + 3L * VECTOR);
        store(low.mul(-128f), to + 4L * VECTOR);
        store(high.mul(-128f), to + 5L * VECTOR);
    }

    /** Computes {@code out[0 .. PANEL) += x · panel} for 4 bits; {@code scratch} is the address of six vectors. */
    static void multiply4(float[] x, int xo, long at, int depth, float[] out, int oo, long scratch) {
        FloatVector low = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector high = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        for (int block = 0; block < depth; block += BLOCK) {
            widen4(at, scratch);
            at += 2L * VECTOR;
            FloatVector low0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch, LE);
            FloatVector low1 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + VECTOR, LE);
            FloatVector high0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 2L * VECTOR, LE);
            FloatVector high1 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 3L * VECTOR, LE);
            FloatVector lowMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 4L * VECTOR, LE);
            FloatVector highMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 5L * VECTOR, LE);
            for (int k = block; k < block + BLOCK; k += 2) {
                // a word holds four inputs per column; each iteration takes two
                IntVector word =
                        IntVector.fromMemorySegment(Lanes.I, MEMORY, at, LE).lanewise(LSHR, (k & 2) << 2);
                FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
                low = ((FloatVector) word.and(NIBBLE_0).convert(I2F, 0))
                        .fma(low0, lowMinimum)
                        .fma(v0, low);
                high = ((FloatVector) word.and(NIBBLE_4).convert(I2F, 0))
                        .fma(high0, highMinimum)
                        .fma(v0, high);
                FloatVector v1 = FloatVector.broadcast(Lanes.F, x[xo + k + 1]);
                low = ((FloatVector) word.and(NIBBLE_1).convert(I2F, 0))
                        .fma(low1, lowMinimum)
                        .fma(v1, low);
                high = ((FloatVector) word.and(NIBBLE_5).convert(I2F, 0))
                        .fma(high1, highMinimum)
                        .fma(v1, high);
                at += (k & 2) * (VECTOR / 2L);
            }
        }
        low.intoArray(out, oo);
        high.intoArray(out, oo + Lanes.COUNT);
    }

    /** Computes {@code out[0 .. PANEL) += x · panel} for 8 bits; {@code scratch} is the address of six vectors. */
    static void multiply8(float[] x, int xo, long at, int depth, float[] out, int oo, long scratch) {
        FloatVector low = FloatVector.fromArray(Lanes.F, out, oo);
        FloatVector high = FloatVector.fromArray(Lanes.F, out, oo + Lanes.COUNT);
        for (int block = 0; block < depth; block += BLOCK) {
            widen8(at, scratch);
            at += VECTOR;
            FloatVector low0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch, LE);
            FloatVector low1 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + VECTOR, LE);
            FloatVector high0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 2L * VECTOR, LE);
            FloatVector high1 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 3L * VECTOR, LE);
            FloatVector lowMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 4L * VECTOR, LE);
            FloatVector highMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 5L * VECTOR, LE);
            for (int k = block; k < block + BLOCK; k += 2) {
                IntVector word = IntVector.fromMemorySegment(Lanes.I, MEMORY, at, LE);
                FloatVector v0 = FloatVector.broadcast(Lanes.F, x[xo + k]);
                low = ((FloatVector) word.and(BYTE_0).convert(I2F, 0))
                        .fma(low0, lowMinimum)
                        .fma(v0, low);
                high = ((FloatVector) word.and(BYTE_2).convert(I2F, 0))
                        .fma(high0, highMinimum)
                        .fma(v0, high);
                FloatVector v1 = FloatVector.broadcast(Lanes.F, x[xo + k + 1]);
                low = ((FloatVector) word.and(BYTE_1).convert(I2F, 0))
                        .fma(low1, lowMinimum)
                        .fma(v1, low);
                high = ((FloatVector) word.lanewise(LSHR, 24).convert(I2F, 0))
                        .fma(high1, highMinimum)
                        .fma(v1, high);
                at += VECTOR;
            }
        }
        low.intoArray(out, oo);
        high.intoArray(out, oo + Lanes.COUNT);
    }

    /**
     * Unpacks inputs of a panel to fp32 {@code [k][PANEL]} at {@code to}.
     *
     * @param at address of the first block
     * @param count inputs, in whole blocks
     * @param scratch address of six vectors
     */
    static void unpack(PackedMatrix.Quantised matrix, long at, int count, long to, long scratch) {
        for (int block = 0; block < count; block += BLOCK) {
            if (matrix.bits() == 4) {
                widen4(at, scratch);
                unpackBlock4(at + 2L * VECTOR, to, scratch);
            } else {
                widen8(at, scratch);
                unpackBlock8(at + VECTOR, to, scratch);
            }
            at += matrix.blockBytes();
            to += (long) BLOCK * 2 * VECTOR;
        }
    }

    private static void unpackBlock4(long at, long to, long scratch) {
        FloatVector low0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch, LE);
        FloatVector high0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 2L * VECTOR, LE);
        FloatVector lowMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 4L * VECTOR, LE);
        FloatVector highMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 5L * VECTOR, LE);
        for (int k = 0; k < BLOCK; k++) {
            IntVector word =
                    IntVector.fromMemorySegment(Lanes.I, MEMORY, at, LE).lanewise(LSHR, (k & 3) << 2);
            ((FloatVector) word.and(NIBBLE_0).convert(I2F, 0))
                    .fma(low0, lowMinimum)
                    .intoMemorySegment(MEMORY, to, LE);
            ((FloatVector) word.and(NIBBLE_4).convert(I2F, 0))
                    .fma(high0, highMinimum)
                    .intoMemorySegment(MEMORY, to + VECTOR, LE);
            at += (k & 3) == 3 ? VECTOR : 0;
            to += 2L * VECTOR;
        }
    }

    private static void unpackBlock8(long at, long to, long scratch) {
        FloatVector low0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch, LE);
        FloatVector high0 = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 2L * VECTOR, LE);
        FloatVector lowMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 4L * VECTOR, LE);
        FloatVector highMinimum = FloatVector.fromMemorySegment(Lanes.F, MEMORY, scratch + 5L * VECTOR, LE);
        for (int k = 0; k < BLOCK; k++) {
            IntVector word =
                    IntVector.fromMemorySegment(Lanes.I, MEMORY, at, LE).lanewise(LSHR, (k & 1) << 3);
            ((FloatVector) word.and(BYTE_0).convert(I2F, 0))
                    .fma(low0, lowMinimum)
                    .intoMemorySegment(MEMORY, to, LE);
            ((FloatVector) word.and(BYTE_2).convert(I2F, 0))
                    .fma(high0, highMinimum)
                    .intoMemorySegment(MEMORY, to + VECTOR, LE);
            at += (k & 1) * (long) VECTOR;
            to += 2L * VECTOR;
        }
    }

    private static void store(FloatVector values, long to) {
        values.intoMemorySegment(Lanes.MEMORY, to, Lanes.LE);
    }
}
