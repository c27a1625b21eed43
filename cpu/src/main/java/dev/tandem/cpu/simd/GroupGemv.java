package dev.tandem.cpu.simd;

import static dev.tandem.cpu.simd.Lanes.F;
import static dev.tandem.cpu.simd.Lanes.I;
import static dev.tandem.cpu.simd.Lanes.LE;
import static dev.tandem.cpu.simd.Lanes.MEMORY;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Multiplies one row by a panel of a {@link PackedMatrix.Quantised} without unpacking it. For each group of inputs, in
 * ascending order, {@code out += scale · Σ quant · x}, then {@code out += minimum · Σ x}. Each sum is one chain of
 * fused multiply-adds from zero over ascending inputs, as in {@link GroupGemm}, so both give the same bits.
 *
 * <p>{@link GroupScales} says which rules keep vectors in registers.
 */
final class GroupGemv {
    private static final int VECTOR = 4 * Lanes.COUNT;
    private static final VectorOperators.Conversion<Integer, Float> I2F = VectorOperators.I2F;
    private static final VectorOperators.Binary LSHR = VectorOperators.LSHR;

    private GroupGemv() {}

    /**
     * Computes {@code out += x · panel} for some groups of inputs.
     *
     * @param bits per quant: 4, 6 or 8
     * @param group inputs per group
     * @param x inputs times {@link QuantFormat#inputFactor}, from {@code xo}
     * @param sums the sum of each group's inputs, from {@code so}
     * @param at address of the first group's quants
     * @param scales address of the groups' scales, as {@link GroupScales} widens them
     * @param out [PANEL] from {@code oo}
     */
    static void multiply(
            int bits,
            int group,
            int groups,
            float[] x,
            int xo,
            float[] sums,
            int so,
            long at,
            long scales,
            float[] out,
            int oo) {
        switch (bits) {
            case 4 -> multiply4(group, groups, x, xo, sums, so, at, scales, out, oo);
            case 6 -> multiply6(group, groups, x, xo, sums, so, at, scales, out, oo);
            case 8 -> multiply8(group, groups, x, xo, sums, so, at, scales, out, oo);
            default -> throw new IllegalArgumentException(bits + " bits");
        }
    }

    private static void multiply4(
            int group, int groups, float[] x, int xo, float[] sums, int so, long at, long scales, float[] out, int oo) {
        FloatVector outLow = FloatVector.fromArray(F, out, oo);
        FloatVector outHigh = FloatVector.fromArray(F, out, oo + Lanes.COUNT);
        for (int g = 0; g < groups; g++) {
            FloatVector low = FloatVector.zero(F);
            FloatVector high = FloatVector.zero(F);
            for (int k = 0; k < group; k += 8) {
                IntVector a = IntVector.fromMemorySegment(I, MEMORY, at, LE);
                IntVector b = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
                FloatVector x0 = FloatVector.broadcast(F, x[xo + k]);
                low = ((FloatVector) a.and(0xF).convert(I2F, 0)).fma(x0, low);
                high = ((FloatVector) b.and(0xF).convert(I2F, 0)).fma(x0, high);
                FloatVector x1 = FloatVector.broadcast(F, x[xo + k + 1]);
                low = ((FloatVector) a.and(0xF0).convert(I2F, 0)).fma(x1, low);
                high = ((FloatVector) b.and(0xF0).convert(I2F, 0)).fma(x1, high);
                FloatVector x2 = FloatVector.broadcast(F, x[xo + k + 2]);
                low = ((FloatVector) a.and(0xF00).convert(I2F, 0)).fma(x2, low);
                high = ((FloatVector) b.and(0xF00).convert(I2F, 0)).fma(x2, high);
                FloatVector x3 = FloatVector.broadcast(F, x[xo + k + 3]);
                low = ((FloatVector) a.and(0xF000).convert(I2F, 0)).fma(x3, low);
                high = ((FloatVector) b.and(0xF000).convert(I2F, 0)).fma(x3, high);
                FloatVector x4 = FloatVector.broadcast(F, x[xo + k + 4]);
                low = ((FloatVector) a.and(0xF0000).convert(I2F, 0)).fma(x4, low);
                high = ((FloatVector) b.and(0xF0000).convert(I2F, 0)).fma(x4, high);
                FloatVector x5 = FloatVector.broadcast(F, x[xo + k + 5]);
                low = ((FloatVector) a.and(0xF00000).convert(I2F, 0)).fma(x5, low);
                high = ((FloatVector) b.and(0xF00000).convert(I2F, 0)).fma(x5, high);
                FloatVector x6 = FloatVector.broadcast(F, x[xo + k + 6]);
                low = ((FloatVector) a.and(0xF000000).convert(I2F, 0)).fma(x6, low);
                high = ((FloatVector) b.and(0xF000000).convert(I2F, 0)).fma(x6, high);
                FloatVector x7 = FloatVector.broadcast(F, x[xo + k + 7]);
                low = ((FloatVector) a.lanewise(LSHR, 28).convert(I2F, 0)).fma(x7, low);
                high = ((FloatVector) b.lanewise(LSHR, 28).convert(I2F, 0)).fma(x7, high);
                at += 2L * VECTOR;
            }
            FloatVector sum = FloatVector.broadcast(F, sums[so + g]);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales, LE).fma(low, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + VECTOR, LE)
                    .fma(high, outHigh);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales + 2L * VECTOR, LE)
                    .fma(sum, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + 3L * VECTOR, LE)
                    .fma(sum, outHigh);
            scales += GroupScales.BYTES;
            xo += group;
        }
        outLow.intoArray(out, oo);
        outHigh.intoArray(out, oo + Lanes.COUNT);
    }

    private static void multiply6(
            int group, int groups, float[] x, int xo, float[] sums, int so, long at, long scales, float[] out, int oo) {
        FloatVector outLow = FloatVector.fromArray(F, out, oo);
        FloatVector outHigh = FloatVector.fromArray(F, out, oo + Lanes.COUNT);
        for (int g = 0; g < groups; g++) {
            FloatVector low = FloatVector.zero(F);
            FloatVector high = FloatVector.zero(F);
            for (int unit = 0; unit < group; unit += 16) {
                IntVector lastA = IntVector.zero(I);
                IntVector lastB = IntVector.zero(I);
                for (int word = 0; word < 3; word++) {
                    IntVector a = IntVector.fromMemorySegment(I, MEMORY, at, LE);
                    IntVector b = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
                    FloatVector x0 = FloatVector.broadcast(F, x[xo]);
                    low = ((FloatVector) a.and(0x3F).convert(I2F, 0)).fma(x0, low);
                    high = ((FloatVector) b.and(0x3F).convert(I2F, 0)).fma(x0, high);
                    FloatVector x1 = FloatVector.broadcast(F, x[xo + 1]);
                    low = ((FloatVector) a.and(0x3F << 6).convert(I2F, 0)).fma(x1, low);
                    high = ((FloatVector) b.and(0x3F << 6).convert(I2F, 0)).fma(x1, high);
                    FloatVector x2 = FloatVector.broadcast(F, x[xo + 2]);
                    low = ((FloatVector) a.and(0x3F << 12).convert(I2F, 0)).fma(x2, low);
                    high = ((FloatVector) b.and(0x3F << 12).convert(I2F, 0)).fma(x2, high);
                    FloatVector x3 = FloatVector.broadcast(F, x[xo + 3]);
                    low = ((FloatVector) a.and(0x3F << 18).convert(I2F, 0)).fma(x3, low);
                    high = ((FloatVector) b.and(0x3F << 18).convert(I2F, 0)).fma(x3, high);
                    FloatVector x4 = FloatVector.broadcast(F, x[xo + 4]);
                    low = ((FloatVector) a.and(0x3F << 24).convert(I2F, 0)).fma(x4, low);
                    high = ((FloatVector) b.and(0x3F << 24).convert(I2F, 0)).fma(x4, high);
                    lastA = lastA.or(a.lanewise(LSHR, 30).lanewise(VectorOperators.LSHL, 2 * word));
                    lastB = lastB.or(b.lanewise(LSHR, 30).lanewise(VectorOperators.LSHL, 2 * word));
                    at += 2L * VECTOR;
                    xo += 5;
                }
                FloatVector last = FloatVector.broadcast(F, x[xo]);
                low = ((FloatVector) lastA.convert(I2F, 0)).fma(last, low);
                high = ((FloatVector) lastB.convert(I2F, 0)).fma(last, high);
                xo++;
            }
            FloatVector sum = FloatVector.broadcast(F, sums[so + g]);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales, LE).fma(low, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + VECTOR, LE)
                    .fma(high, outHigh);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales + 2L * VECTOR, LE)
                    .fma(sum, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + 3L * VECTOR, LE)
                    .fma(sum, outHigh);
            scales += GroupScales.BYTES;
        }
        outLow.intoArray(out, oo);
        outHigh.intoArray(out, oo + Lanes.COUNT);
    }

    private static void multiply8(
            int group, int groups, float[] x, int xo, float[] sums, int so, long at, long scales, float[] out, int oo) {
        FloatVector outLow = FloatVector.fromArray(F, out, oo);
        FloatVector outHigh = FloatVector.fromArray(F, out, oo + Lanes.COUNT);
        for (int g = 0; g < groups; g++) {
            FloatVector low = FloatVector.zero(F);
            FloatVector high = FloatVector.zero(F);
            for (int k = 0; k < group; k += 4) {
                IntVector a = IntVector.fromMemorySegment(I, MEMORY, at, LE);
                IntVector b = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
                FloatVector x0 = FloatVector.broadcast(F, x[xo + k]);
                low = ((FloatVector) a.and(0xFF).convert(I2F, 0)).fma(x0, low);
                high = ((FloatVector) b.and(0xFF).convert(I2F, 0)).fma(x0, high);
                FloatVector x1 = FloatVector.broadcast(F, x[xo + k + 1]);
                low = ((FloatVector) a.and(0xFF00).convert(I2F, 0)).fma(x1, low);
                high = ((FloatVector) b.and(0xFF00).convert(I2F, 0)).fma(x1, high);
                FloatVector x2 = FloatVector.broadcast(F, x[xo + k + 2]);
                low = ((FloatVector) a.and(0xFF0000).convert(I2F, 0)).fma(x2, low);
                high = ((FloatVector) b.and(0xFF0000).convert(I2F, 0)).fma(x2, high);
                FloatVector x3 = FloatVector.broadcast(F, x[xo + k + 3]);
                low = ((FloatVector) a.lanewise(LSHR, 24).convert(I2F, 0)).fma(x3, low);
                high = ((FloatVector) b.lanewise(LSHR, 24).convert(I2F, 0)).fma(x3, high);
                at += 2L * VECTOR;
            }
            FloatVector sum = FloatVector.broadcast(F, sums[so + g]);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales, LE).fma(low, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + VECTOR, LE)
                    .fma(high, outHigh);
            outLow = FloatVector.fromMemorySegment(F, MEMORY, scales + 2L * VECTOR, LE)
                    .fma(sum, outLow);
            outHigh = FloatVector.fromMemorySegment(F, MEMORY, scales + 3L * VECTOR, LE)
                    .fma(sum, outHigh);
            scales += GroupScales.BYTES;
            xo += group;
        }
        outLow.intoArray(out, oo);
        outHigh.intoArray(out, oo + Lanes.COUNT);
    }
}
