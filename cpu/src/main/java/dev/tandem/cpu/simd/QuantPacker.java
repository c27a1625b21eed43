package dev.tandem.cpu.simd;

import dev.tandem.model.weights.ElementType;

/**
 * Rearranges the blocks of one matrix row of a GGUF file into a column of a panel, as {@link QuantFormat} describes. It
 * changes no quant and no scale.
 *
 * <p>It reads an array, because code that is not compiled yet reads an array faster than a memory segment.
 */
final class QuantPacker {
    private final ElementType type;
    private final QuantFormat format;
    private final int depth;
    private final byte[] quants;

    QuantPacker(ElementType type, int depth) {
        this.type = type;
        this.format = QuantFormat.of(type);
        this.depth = depth;
        this.quants = new byte[depth];
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
        for (int k = 0, at = 0; k < depth; k += elements, at += type.blockBytes()) {
            switch (type) {
                case Q4_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    nibbles(blocks, at + 2, k);
                }
                case Q4_1 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    half(blocks, at + 2, words, vector(k, 1) + lane, second);
                    nibbles(blocks, at + 4, k);
                }
                case Q5_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    nibbles(blocks, at + 6, k);
                    fifthBits(blocks, at + 2, k);
                }
                case Q5_1 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    half(blocks, at + 2, words, vector(k, 1) + lane, second);
                    nibbles(blocks, at + 8, k);
                    fifthBits(blocks, at + 4, k);
                }
                case Q8_0 -> {
                    half(blocks, at, words, vector(k, 0) + lane, second);
                    for (int i = 0; i < elements; i++) {
                        quants[k + i] = (byte) (blocks[at + 2 + i] + 128);
                    }
                }
                case Q4_K -> {
                    superBlock(blocks, at, words, k, lane, second);
                    runs(blocks, at + 16, k);
                }
                case Q5_K -> {
                    superBlock(blocks, at, words, k, lane, second);
                    runs(blocks, at + 48, k);
                    for (int i = 0; i < elements; i++) {
                        quants[k + i] |= (byte) ((blocks[at + 16 + i % 32] >> i / 32 & 1) << 4);
                    }
                }
                case Q6_K -> {
                    half(blocks, at + 208, words, format.superBlockVector(k) * Lanes.COUNT + lane, second);
                    for (int group = 0; group < 16; group++) {
                        int word = vector(k + group * format.group, 0) + lane;
                        words[word] |= (blocks[at + 192 + group] & 0xFF) << 16 * (group % 2) + 8 * second;
                    }
                    sixBits(blocks, at, k);
                }
                case F32, F16, BF16 -> throw new IllegalStateException(type + " is not quantised");
            }
        }
        packQuants(words, lane, second);
    }

    /** The index of a vector's first word among the scales of input {@code k}'s group. */
    private int vector(int k, int index) {
        return (format.scaleVector(depth, k) + index) * Lanes.COUNT;
    }

    private static void half(byte[] blocks, int at, int[] words, int word, int second) {
        words[word] |= (blocks[at] & 0xFF | (blocks[at + 1] & 0xFF) << 8) << 16 * second;
    }

    /** Reads 32 quants of 4 bits; a byte holds inputs i and i + 16. */
    private void nibbles(byte[] blocks, int at, int k) {
        for (int i = 0; i < 16; i++) {
            quants[k + i] = (byte) (blocks[at + i] & 15);
            quants[k + 16 + i] = (byte) (blocks[at + i] >> 4 & 15);
        }
    }

    /** Adds the fifth bits of 32 quants; bit i belongs to input i. */
    private void fifthBits(byte[] blocks, int at, int k) {
        for (int i = 0; i < 32; i++) {
            quants[k + i] |= (byte) ((blocks[at + i / 8] >> i % 8 & 1) << 4);
        }
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

    /** Reads 256 quants of 4 bits; 32 bytes hold the low and then the high nibbles of 64 inputs. */
    private void runs(byte[] blocks, int at, int k) {
        for (int i = 0; i < QuantFormat.SUPER_BLOCK; i++) {
            int pair = blocks[at + i / 64 * 32 + i % 32];
            quants[k + i] = (byte) (pair >> i % 64 / 32 * 4 & 15);
        }
    }

    /** Reads 256 quants of 6 bits: low nibbles from the block's start, upper bits after 128 bytes. */
    private void sixBits(byte[] blocks, int at, int k) {
        for (int i = 0; i < QuantFormat.SUPER_BLOCK; i++) {
            int half = i / 128;
            int quarter = i % 128 / 32;
            int nibble = blocks[at + 64 * half + quarter % 2 * 32 + i % 32] >> quarter / 2 * 4 & 15;
            int upper = blocks[at + 128 + 32 * half + i % 32] >> 2 * quarter & 3;
            quants[k + i] = (byte) (nibble | upper << 4);
        }
    }

    private void packQuants(int[] words, int lane, int second) {
        int to = (format.quantVector(depth, 0) + second) * Lanes.COUNT + lane;
        switch (format.bits) {
            case 4 -> packFields(8, words, to);
            case 6 -> packSixes(words, to);
            case 8 -> packFields(4, words, to);
            default -> throw new IllegalStateException(format.bits + " bits");
        }
    }

    private void packFields(int perWord, int[] words, int to) {
        for (int k = 0; k < depth; k += perWord) {
            int word = 0;
            for (int i = 0; i < perWord; i++) {
                word |= (quants[k + i] & 0xFF) << i * format.bits;
            }
            words[to] = word;
            to += 2 * Lanes.COUNT;
        }
    }

    private void packSixes(int[] words, int to) {
        for (int k = 0; k < depth; k += 16) {
            for (int w = 0; w < 3; w++) {
                int word = (quants[k + 15] >> 2 * w & 3) << 30;
                for (int i = 0; i < 5; i++) {
                    word |= quants[k + 5 * w + i] << 6 * i;
                }
                words[to] = word;
                to += 2 * Lanes.COUNT;
            }
        }
    }
}
