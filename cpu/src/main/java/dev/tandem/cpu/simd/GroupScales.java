package dev.tandem.cpu.simd;

import static dev.tandem.cpu.simd.Lanes.I;
import static dev.tandem.cpu.simd.Lanes.LE;
import static dev.tandem.cpu.simd.Lanes.MEMORY;
import static jdk.incubator.vector.VectorOperators.ASHR;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Widens the scales and minimums of a panel's groups to fp32, exactly. The result of a group is four vectors in memory:
 * scales of the panel's first and second vector of columns, then minimums of both.
 *
 * <p>{@link GroupGemv}, {@link GroupGemm}, {@link QuantUnpack} and this class keep two rules, so that the compiler
 * turns all their vectors into registers. Where it gives up, each vector becomes an object; kernels then took 1.6 to 9
 * times as long.
 *
 * <ul>
 *   <li>A method with vectors calls methods of the JDK's vectors only: these are inlined whatever the size of the
 *       caller.
 *   <li>A method with vectors has more than 325 bytes of code, so it is inlined nowhere. Several such methods in one
 *       compilation would exceed its limits, and which ones are together depends on the order of compilations.
 * </ul>
 */
final class GroupScales {
    private static final int VECTOR = 4 * Lanes.COUNT;
    /** Bytes per group. */
    static final int BYTES = 4 * VECTOR;

    private static final float HALF_BIAS = Unpack.HALF_BIAS;
    private static final int HALF_MASK = Unpack.HALF_MASK;
    private static final VectorOperators.Conversion<Integer, Float> I2F = VectorOperators.I2F;

    private GroupScales() {}

    /**
     * Widens the groups of {@code count} inputs from input {@code k}, all of one super-block. Groups are widened in
     * pairs: what follows the last of an odd number is overwritten.
     *
     * @param panel address of the panel
     * @param to address of {@link #BYTES} per group
     */
    static void widen(PackedMatrix.Quantised matrix, long panel, int k, int count, long to) {
        QuantFormat format = matrix.format();
        int groups = count / format.group;
        long at = panel + (long) format.scaleVector(matrix.depth(), k) * VECTOR;
        long superBlock = panel + (long) format.superBlockVector(k) * VECTOR;
        switch (format.scales) {
            case GROUP -> group(at, groups, -format.offset, to);
            case GROUP_AND_MINIMUM -> groupAndMinimum(at, groups, to);
            case SUPER_BLOCK -> superBlock(superBlock, at, groups, -format.offset, to);
            case SUPER_BLOCK_AND_MINIMUM -> superBlockAndMinimum(superBlock, at, groups, to);
        }
    }

    private static void group(long at, int groups, float minimum, long to) {
        for (int group = 0; group < groups; group += 2) {
            IntVector first = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            FloatVector low = first.lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector high =
                    first.lanewise(ASHR, 3).and(HALF_MASK).reinterpretAsFloats().mul(HALF_BIAS);
            low.intoMemorySegment(MEMORY, to, LE);
            high.intoMemorySegment(MEMORY, to + VECTOR, LE);
            low.mul(minimum).intoMemorySegment(MEMORY, to + 2L * VECTOR, LE);
            high.mul(minimum).intoMemorySegment(MEMORY, to + 3L * VECTOR, LE);
            IntVector second = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
            FloatVector nextLow = second.lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector nextHigh = second.lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            nextLow.intoMemorySegment(MEMORY, to + 4L * VECTOR, LE);
            nextHigh.intoMemorySegment(MEMORY, to + 5L * VECTOR, LE);
            nextLow.mul(minimum).intoMemorySegment(MEMORY, to + 6L * VECTOR, LE);
            nextHigh.mul(minimum).intoMemorySegment(MEMORY, to + 7L * VECTOR, LE);
            at += 2L * VECTOR;
            to += 2L * BYTES;
        }
    }

    private static void groupAndMinimum(long at, int groups, long to) {
        for (int group = 0; group < groups; group += 2) {
            IntVector scales = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            FloatVector scaleLow = scales.lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector scaleHigh = scales.lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            scaleLow.intoMemorySegment(MEMORY, to, LE);
            scaleHigh.intoMemorySegment(MEMORY, to + VECTOR, LE);
            IntVector minimums = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
            FloatVector minimumLow = minimums.lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector minimumHigh = minimums.lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            minimumLow.intoMemorySegment(MEMORY, to + 2L * VECTOR, LE);
            minimumHigh.intoMemorySegment(MEMORY, to + 3L * VECTOR, LE);
            IntVector nextScales = IntVector.fromMemorySegment(I, MEMORY, at + 2L * VECTOR, LE);
            FloatVector nextScaleLow = nextScales
                    .lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector nextScaleHigh = nextScales
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            nextScaleLow.intoMemorySegment(MEMORY, to + 4L * VECTOR, LE);
            nextScaleHigh.intoMemorySegment(MEMORY, to + 5L * VECTOR, LE);
            IntVector nextMinimums = IntVector.fromMemorySegment(I, MEMORY, at + 3L * VECTOR, LE);
            FloatVector nextMinimumLow = nextMinimums
                    .lanewise(LSHL, 16)
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            FloatVector nextMinimumHigh = nextMinimums
                    .lanewise(ASHR, 3)
                    .and(HALF_MASK)
                    .reinterpretAsFloats()
                    .mul(HALF_BIAS);
            nextMinimumLow.intoMemorySegment(MEMORY, to + 6L * VECTOR, LE);
            nextMinimumHigh.intoMemorySegment(MEMORY, to + 7L * VECTOR, LE);
            at += 4L * VECTOR;
            to += 2L * BYTES;
        }
    }

    private static void superBlock(long superBlock, long at, int groups, float minimum, long to) {
        IntVector d = IntVector.fromMemorySegment(I, MEMORY, superBlock, LE);
        FloatVector dLow = d.lanewise(LSHL, 16)
                .lanewise(ASHR, 3)
                .and(HALF_MASK)
                .reinterpretAsFloats()
                .mul(HALF_BIAS);
        FloatVector dHigh =
                d.lanewise(ASHR, 3).and(HALF_MASK).reinterpretAsFloats().mul(HALF_BIAS);
        for (int group = 0; group < groups; group += 2) {
            IntVector word = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            FloatVector low =
                    ((FloatVector) word.lanewise(LSHL, 24).lanewise(ASHR, 24).convert(I2F, 0)).mul(dLow);
            FloatVector high =
                    ((FloatVector) word.lanewise(LSHL, 16).lanewise(ASHR, 24).convert(I2F, 0)).mul(dHigh);
            low.intoMemorySegment(MEMORY, to, LE);
            high.intoMemorySegment(MEMORY, to + VECTOR, LE);
            low.mul(minimum).intoMemorySegment(MEMORY, to + 2L * VECTOR, LE);
            high.mul(minimum).intoMemorySegment(MEMORY, to + 3L * VECTOR, LE);
            FloatVector nextLow =
                    ((FloatVector) word.lanewise(LSHL, 8).lanewise(ASHR, 24).convert(I2F, 0)).mul(dLow);
            FloatVector nextHigh = ((FloatVector) word.lanewise(ASHR, 24).convert(I2F, 0)).mul(dHigh);
            nextLow.intoMemorySegment(MEMORY, to + 4L * VECTOR, LE);
            nextHigh.intoMemorySegment(MEMORY, to + 5L * VECTOR, LE);
            nextLow.mul(minimum).intoMemorySegment(MEMORY, to + 6L * VECTOR, LE);
            nextHigh.mul(minimum).intoMemorySegment(MEMORY, to + 7L * VECTOR, LE);
            at += VECTOR;
            to += 2L * BYTES;
        }
    }

    private static void superBlockAndMinimum(long superBlock, long at, int groups, long to) {
        IntVector d = IntVector.fromMemorySegment(I, MEMORY, superBlock, LE);
        IntVector dmin = IntVector.fromMemorySegment(I, MEMORY, superBlock + VECTOR, LE);
        FloatVector dLow = d.lanewise(LSHL, 16)
                .lanewise(ASHR, 3)
                .and(HALF_MASK)
                .reinterpretAsFloats()
                .mul(HALF_BIAS);
        FloatVector dHigh =
                d.lanewise(ASHR, 3).and(HALF_MASK).reinterpretAsFloats().mul(HALF_BIAS);
        FloatVector dminLow = dmin.lanewise(LSHL, 16)
                .lanewise(ASHR, 3)
                .and(HALF_MASK)
                .reinterpretAsFloats()
                .mul(-HALF_BIAS);
        FloatVector dminHigh =
                dmin.lanewise(ASHR, 3).and(HALF_MASK).reinterpretAsFloats().mul(-HALF_BIAS);
        for (int group = 0; group < groups; group++) {
            IntVector word = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            FloatVector low = ((FloatVector) word.and(0xFF).convert(I2F, 0)).mul(dLow);
            FloatVector high = ((FloatVector) word.lanewise(LSHR, 16).and(0xFF).convert(I2F, 0)).mul(dHigh);
            FloatVector minimumLow =
                    ((FloatVector) word.lanewise(LSHR, 8).and(0xFF).convert(I2F, 0)).mul(dminLow);
            FloatVector minimumHigh = ((FloatVector) word.lanewise(LSHR, 24).convert(I2F, 0)).mul(dminHigh);
            low.intoMemorySegment(MEMORY, to, LE);
            high.intoMemorySegment(MEMORY, to + VECTOR, LE);
            minimumLow.intoMemorySegment(MEMORY, to + 2L * VECTOR, LE);
            minimumHigh.intoMemorySegment(MEMORY, to + 3L * VECTOR, LE);
            at += VECTOR;
            to += BYTES;
        }
    }
}
