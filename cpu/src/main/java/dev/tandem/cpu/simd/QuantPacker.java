package dev.tandem.cpu.simd;

import dev.tandem.model.weights.ElementType;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Rearranges the blocks of one matrix row of a GGUF file into a column of a panel, as {@link QuantFormat} describes. It
 * changes no quant and no scale.
 *
 * <p>Quants are unpacked eight at a time, as the bytes of a long: one pass over the blocks, and no vectors, because
 * code with vectors that is not compiled yet allocates each of them. For the same reason it reads an array, which such
 * code reads faster than a memory segment.
 */
final class QuantPacker {
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, Lanes.LE);
    private static final long ONES = 0x0101010101010101L;
    private static final long NIBBLES = 0x0F * ONES;
    private static final long SIGNS = 0x8080808080808080L;

    private final ElementType type;
    private final QuantFormat format;
    private final int depth;

    QuantPacker(ElementType type, int depth) {
        this.type = type;
        this.format = QuantFormat.of(type);
        this.depth = depth;
    }

    /**
     * Packs one column.
     *
     * @param blocks the column's blocks as the file stores them
     * @param column of the panel
     * @param words the panel; bits of this column must be zero
     */
    void pack(byte[] blocks, int column, int[] words) {
        int lane = column % Lanes.COUNT;
        int second = column / Lanes.COUNT;
        int elements = type.blockElements();
        int step = elements * format.bits / Integer.SIZE * Lanes.PANEL;
        int to = (format.quantVector(depth, 0) + second) * Lanes.COUNT + lane;
        for (int k = 0, at = 0; k < depth; k += elements, at += type.blockBytes(), to += step) {
            switch (type) {
                case Q4_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    nibbles(blocks, at + 2, words, to);
                }
                case Q4_1 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    half(blocks, at + 2, words, vector(k, 1) + lane, second);
                    nibbles(blocks, at + 4, words, to);
                }
                case Q5_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    fives(blocks, at + 2, words, to);
                }
                case Q5_1 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    half(blocks, at + 2, words, vector(k, 1) + lane, second);
                    fives(blocks, at + 4, words, to);
                }
                case Q8_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    eights(blocks, at + 2, words, to);
                }
                case Q4_K -> {
                    superBlock(blocks, at, words, k, lane, second);
                    nibbleRuns(blocks, at + 16, words, to);
                }
                case Q5_K -> {
                    superBlock(blocks, at, words, k, lane, second);
                    fiveRuns(blocks, at + 16, words, to);
                }
                case Q6_K -> {
                    half(blocks, at + 208, words, format.superBlockVector(k) * Lanes.COUNT + lane, second);
                    for (int group = 0; group < 16; group++) {
                        int word = vector(k + group * format.group, 0) + lane;
                        words[word] |= (blocks[at + 192 + group] & 0xFF) << 16 * (group % 2) + 8 * second;
                    }
                    sixes(blocks, at, words, to);
                }
                case F32, F16, BF16 -> throw new IllegalStateException(type + " is not quantised");
            }
        }
    }

    /** The index of a vector's first word among the scales of input {@code k}'s group. */
    private int vector(int k, int index) {
        return (format.scaleVector(depth, k) + index) * Lanes.COUNT;
    }

    private static void half(byte[] blocks, int at, int[] words, int word, int second) {
        words[word] |= (blocks[at] & 0xFF | (blocks[at + 1] & 0xFF) << 8) << 16 * second;
    }

    /** Reads d, dmin and the packed six-bit scales and minimums of 8 groups. */
    private void superBlock(byte[] blocks, int at, int[] words, int k, int lane, int second) {
        int first = format.superBlockVector(k) * Lanes.COUNT + lane;
        half(blocks, at, words, first, second);
        half(blocks, at + 2, words, first + Lanes.COUNT, second);
        int packed = at + 4;
        for (int group = 0; group < 8; group++) {
            int scale;
            int minimum;
            if (group < 4) {
                scale = blocks[packed + group] & 63;
                minimum = blocks[packed + group + 4] & 63;
            } else {
                int low = blocks[packed + group + 4];
                scale = low & 15 | (blocks[packed + group - 4] >> 6 & 3) << 4;
                minimum = low >> 4 & 15 | (blocks[packed + group] >> 6 & 3) << 4;
            }
            words[vector(k + group * format.group, 0) + lane] |= (scale | minimum << 8) << 16 * second;
        }
    }

    /** Packs 32 quants of 4 bits; a byte holds inputs i and i + 16. */
    private static void nibbles(byte[] blocks, int at, int[] words, int to) {
        for (int i = 0; i < 2; i++) {
            long pairs = eight(blocks, at + 8 * i);
            words[to + i * Lanes.PANEL] = fourBits(pairs & NIBBLES);
            words[to + (2 + i) * Lanes.PANEL] = fourBits(pairs >>> 4 & NIBBLES);
        }
    }

    /** Packs 32 quants of 5 bits: the fifth bits, bit i of input i, and after them the others as {@link #nibbles}. */
    private static void fives(byte[] blocks, int at, int[] words, int to) {
        long first = eight(blocks, at + 4);
        long second = eight(blocks, at + 12);
        sixBits(first & NIBBLES | fifthBits(blocks[at]), second & NIBBLES | fifthBits(blocks[at + 1]), words, to);
        sixBits(
                first >>> 4 & NIBBLES | fifthBits(blocks[at + 2]),
                second >>> 4 & NIBBLES | fifthBits(blocks[at + 3]),
                words,
                to + 3 * Lanes.PANEL);
    }

    /** Packs 32 signed bytes. */
    private static void eights(byte[] blocks, int at, int[] words, int to) {
        for (int i = 0; i < 4; i++) {
            long quants = eight(blocks, at + 8 * i) ^ SIGNS;
            words[to + 2 * i * Lanes.PANEL] = (int) quants;
            words[to + (2 * i + 1) * Lanes.PANEL] = (int) (quants >>> 32);
        }
    }

    /** Packs 256 quants of 4 bits; 32 bytes hold the low and then the high nibbles of 64 inputs. */
    private static void nibbleRuns(byte[] blocks, int at, int[] words, int to) {
        for (int run = 0; run < 4; run++) {
            for (int i = 0; i < 4; i++) {
                long pairs = eight(blocks, at + 32 * run + 8 * i);
                words[to + (8 * run + i) * Lanes.PANEL] = fourBits(pairs & NIBBLES);
                words[to + (8 * run + 4 + i) * Lanes.PANEL] = fourBits(pairs >>> 4 & NIBBLES);
            }
        }
    }

    /**
     * Packs 256 quants of 5 bits: 32 bytes of fifth bits, bit j of byte i for input 32j + i, and after them the others
     * as {@link #nibbleRuns}.
     */
    private static void fiveRuns(byte[] blocks, int at, int[] words, int to) {
        for (int run = 0; run < 8; run++) {
            int low = at + 32 + run / 2 * 32;
            int shift = run % 2 * 4;
            for (int i = 0; i < 32; i += 16) {
                long first = eight(blocks, low + i) >>> shift & NIBBLES;
                long second = eight(blocks, low + i + 8) >>> shift & NIBBLES;
                sixBits(
                        first | (eight(blocks, at + i) >>> run & ONES) << 4,
                        second | (eight(blocks, at + i + 8) >>> run & ONES) << 4,
                        words,
                        to);
                to += 3 * Lanes.PANEL;
            }
        }
    }

    /** Packs 256 quants of 6 bits: low nibbles from the block's start, upper bits after 128 bytes. */
    private static void sixes(byte[] blocks, int at, int[] words, int to) {
        for (int run = 0; run < 8; run++) {
            int low = at + run / 4 * 64 + run % 2 * 32;
            int lowShift = run % 4 / 2 * 4;
            int upper = at + 128 + run / 4 * 32;
            int upperShift = run % 4 * 2;
            for (int i = 0; i < 32; i += 16) {
                long first = eight(blocks, low + i) >>> lowShift & NIBBLES;
                long second = eight(blocks, low + i + 8) >>> lowShift & NIBBLES;
                sixBits(
                        first | (eight(blocks, upper + i) >>> upperShift & 3 * ONES) << 4,
                        second | (eight(blocks, upper + i + 8) >>> upperShift & 3 * ONES) << 4,
                        words,
                        to);
                to += 3 * Lanes.PANEL;
            }
        }
    }

    private static long eight(byte[] blocks, int at) {
        return (long) LONG.get(blocks, at);
    }

    /** Bit i of the byte as bit 4 of the result's byte i. */
    private static long fifthBits(byte bits) {
        long apart = (bits & 0xFF) * ONES & 0x8040201008040201L;
        return (apart + 0x7F * ONES >>> 7 & ONES) << 4; // a byte that is not zero carries into its bit 7
    }

    /** The low four bits of each of eight bytes, side by side; the other bits must be zero. */
    private static int fourBits(long bytes) {
        long twos = (bytes | bytes >>> 4) & 0x00FF00FF00FF00FFL;
        long fours = (twos | twos >>> 8) & 0x0000FFFF0000FFFFL;
        return (int) (fours | fours >>> 16);
    }

    /** Stores 16 quants of six bits, one per byte, as the three words of a unit. */
    private static void sixBits(long first, long second, int[] words, int to) {
        long low = sideBySide(first);
        long high = sideBySide(second);
        int last = (int) (high >>> 42);
        words[to] = (int) low & 0x3FFFFFFF | last << 30;
        words[to + Lanes.PANEL] = (int) (low >>> 30) | (int) high << 18 & 0x3FFC0000 | last >> 2 << 30;
        words[to + 2 * Lanes.PANEL] = (int) (high >>> 12) & 0x3FFFFFFF | last >> 4 << 30;
    }

    /** The low six bits of each of eight bytes as 48 bits; the other bits must be zero. */
    private static long sideBySide(long bytes) {
        long twos = bytes & 0x003F003F003F003FL | bytes >>> 2 & 0x0FC00FC00FC00FC0L;
        long fours = twos & 0x00000FFF00000FFFL | twos >>> 4 & 0x00FFF00000FFF000L;
        return fours & 0x0000000000FFFFFFL | fours >>> 8 & 0x0000FFFFFF000000L;
    }
}
