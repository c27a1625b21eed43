package dev.tandem.cpu.simd;

import static dev.tandem.cpu.simd.Lanes.I;
import static dev.tandem.cpu.simd.Lanes.LE;
import static dev.tandem.cpu.simd.Lanes.MEMORY;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;

/**
 * Unpacks the quants of a panel of a {@link PackedMatrix.Quantised} to fp32 {@code [k][PANEL]}, for {@link GroupGemm}.
 * A quant stays where it lies in its word, so the result is quant · 2^shift, which {@link QuantFormat#inputFactor}
 * compensates for.
 */
final class QuantUnpack {
    private static final int VECTOR = 4 * Lanes.COUNT;
    private static final long ROW = 2L * VECTOR;
    private static final VectorOperators.Conversion<Integer, Float> I2F = VectorOperators.I2F;
    private static final VectorOperators.Binary LSHR = VectorOperators.LSHR;

    private QuantUnpack() {}

    /**
     * Unpacks {@code count} inputs.
     *
     * @param bits per quant: 4, 6 or 8
     * @param at address of the first input's quants, which begin a unit
     * @param to address of {@code [count][PANEL]} fp32 values
     */
    static void unpack(int bits, long at, int count, long to) {
        switch (bits) {
            case 4 -> unpack4(at, count, to);
            case 6 -> unpack6(at, count, to);
            case 8 -> unpack8(at, count, to);
            default -> throw new IllegalArgumentException(bits + " bits");
        }
    }

    private static void unpack4(long at, int count, long to) {
        for (int k = 0; k < count; k += 8) {
            IntVector first = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            IntVector second = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
            ((FloatVector) first.and(0xF).convert(I2F, 0)).intoMemorySegment(MEMORY, to, LE);
            ((FloatVector) first.and(0xF << 4).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW, LE);
            ((FloatVector) first.and(0xF << 8).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 2 * ROW, LE);
            ((FloatVector) first.and(0xF << 12).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 3 * ROW, LE);
            ((FloatVector) first.and(0xF << 16).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 4 * ROW, LE);
            ((FloatVector) first.and(0xF << 20).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 5 * ROW, LE);
            ((FloatVector) first.and(0xF << 24).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 6 * ROW, LE);
            ((FloatVector) first.lanewise(LSHR, 28).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 7 * ROW, LE);
            ((FloatVector) second.and(0xF).convert(I2F, 0)).intoMemorySegment(MEMORY, to + VECTOR, LE);
            ((FloatVector) second.and(0xF << 4).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW + VECTOR, LE);
            ((FloatVector) second.and(0xF << 8).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 2 * ROW + VECTOR, LE);
            ((FloatVector) second.and(0xF << 12).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 3 * ROW + VECTOR, LE);
            ((FloatVector) second.and(0xF << 16).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 4 * ROW + VECTOR, LE);
            ((FloatVector) second.and(0xF << 20).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 5 * ROW + VECTOR, LE);
            ((FloatVector) second.and(0xF << 24).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 6 * ROW + VECTOR, LE);
            ((FloatVector) second.lanewise(LSHR, 28).convert(I2F, 0))
                    .intoMemorySegment(MEMORY, to + 7 * ROW + VECTOR, LE);
            at += 2L * VECTOR;
            to += 8 * ROW;
        }
    }

    private static void unpack6(long at, int count, long to) {
        for (int k = 0; k < count; k += 16) {
            IntVector lastFirst = IntVector.zero(I);
            IntVector lastSecond = IntVector.zero(I);
            for (int word = 0; word < 3; word++) {
                IntVector first = IntVector.fromMemorySegment(I, MEMORY, at, LE);
                IntVector second = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
                ((FloatVector) first.and(0x3F).convert(I2F, 0)).intoMemorySegment(MEMORY, to, LE);
                ((FloatVector) first.and(0x3F << 6).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW, LE);
                ((FloatVector) first.and(0x3F << 12).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 2 * ROW, LE);
                ((FloatVector) first.and(0x3F << 18).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 3 * ROW, LE);
                ((FloatVector) first.and(0x3F << 24).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 4 * ROW, LE);
                ((FloatVector) second.and(0x3F).convert(I2F, 0)).intoMemorySegment(MEMORY, to + VECTOR, LE);
                ((FloatVector) second.and(0x3F << 6).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW + VECTOR, LE);
                ((FloatVector) second.and(0x3F << 12).convert(I2F, 0))
                        .intoMemorySegment(MEMORY, to + 2 * ROW + VECTOR, LE);
                ((FloatVector) second.and(0x3F << 18).convert(I2F, 0))
                        .intoMemorySegment(MEMORY, to + 3 * ROW + VECTOR, LE);
                ((FloatVector) second.and(0x3F << 24).convert(I2F, 0))
                        .intoMemorySegment(MEMORY, to + 4 * ROW + VECTOR, LE);
                lastFirst = lastFirst.or(first.lanewise(LSHR, 30).lanewise(VectorOperators.LSHL, 2 * word));
                lastSecond = lastSecond.or(second.lanewise(LSHR, 30).lanewise(VectorOperators.LSHL, 2 * word));
                at += 2L * VECTOR;
                to += 5 * ROW;
            }
            ((FloatVector) lastFirst.convert(I2F, 0)).intoMemorySegment(MEMORY, to, LE);
            ((FloatVector) lastSecond.convert(I2F, 0)).intoMemorySegment(MEMORY, to + VECTOR, LE);
            to += ROW;
        }
    }

    private static void unpack8(long at, int count, long to) {
        for (int k = 0; k < count; k += 4) {
            IntVector first = IntVector.fromMemorySegment(I, MEMORY, at, LE);
            IntVector second = IntVector.fromMemorySegment(I, MEMORY, at + VECTOR, LE);
            ((FloatVector) first.and(0xFF).convert(I2F, 0)).intoMemorySegment(MEMORY, to, LE);
            ((FloatVector) first.and(0xFF << 8).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW, LE);
            ((FloatVector) first.and(0xFF << 16).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 2 * ROW, LE);
            ((FloatVector) first.lanewise(LSHR, 24).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 3 * ROW, LE);
            ((FloatVector) second.and(0xFF).convert(I2F, 0)).intoMemorySegment(MEMORY, to + VECTOR, LE);
            ((FloatVector) second.and(0xFF << 8).convert(I2F, 0)).intoMemorySegment(MEMORY, to + ROW + VECTOR, LE);
            ((FloatVector) second.and(0xFF << 16).convert(I2F, 0)).intoMemorySegment(MEMORY, to + 2 * ROW + VECTOR, LE);
            ((FloatVector) second.lanewise(LSHR, 24).convert(I2F, 0))
                    .intoMemorySegment(MEMORY, to + 3 * ROW + VECTOR, LE);
            at += 2L * VECTOR;
            to += 4 * ROW;
        }
    }
}
