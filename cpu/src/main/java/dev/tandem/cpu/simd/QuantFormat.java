package dev.tandem.cpu.simd;

import dev.tandem.model.weights.ElementType;

/**
 * How a type of GGUF's quantised blocks lies in a panel of a {@link PackedMatrix.Quantised}. A weight is {@code scale ·
 * quant + minimum}, with an unsigned quant and with a scale and a minimum per group of inputs and column, all exactly
 * those of the file.
 *
 * <p>A panel has three regions, all of whole vectors of words. Lane i belongs to column i and to column i + COUNT.
 *
 * <pre>
 * super-blocks  per 256 inputs: d, then for types with minimums dmin; fp16 of column i (low half) and i + COUNT
 * scales        {@link Scales} says what a word holds
 * quants        per unit of inputs: words of columns 0 .. COUNT - 1, then of the other columns, word by word
 *   4 bits      unit of 8 inputs, 1 word: input k at bit 4k
 *   6 bits      unit of 16 inputs, 3 words: input 5w + j of word w at bit 6j; bits 30 and 31 of the three words,
 *               lowest first, are input 15
 *   8 bits      unit of 4 inputs, 1 word: input k at bit 8k
 * </pre>
 *
 * <p>Quants of five bits take six: a layout of their own would save a sixth of the memory of types that are rare, for
 * two more kernels.
 */
public enum QuantFormat {
    Q4_0(4, 32, Scales.GROUP, 8),
    Q4_1(4, 32, Scales.GROUP_AND_MINIMUM, 0),
    Q5_0(6, 32, Scales.GROUP, 16),
    Q5_1(6, 32, Scales.GROUP_AND_MINIMUM, 0),
    Q8_0(8, 32, Scales.GROUP, 128),
    Q4_K(4, 32, Scales.SUPER_BLOCK_AND_MINIMUM, 0),
    Q5_K(6, 32, Scales.SUPER_BLOCK_AND_MINIMUM, 0),
    Q6_K(6, 16, Scales.SUPER_BLOCK, 32);

    /** Inputs per super-block. */
    static final int SUPER_BLOCK = 256;
    /** The smallest group of any format. */
    static final int MIN_GROUP = 16;

    /** Where a group's scale and minimum come from, and what a word of the scales holds. */
    enum Scales {
        /** One word per group: fp16 scales. A minimum is -offset · scale. */
        GROUP(0, 2),
        /** Two words per group: fp16 scales, then fp16 minimums. */
        GROUP_AND_MINIMUM(0, 4),
        /**
         * One word per two groups: four signed bytes, for each group those of columns i and i + COUNT. A scale is d
         * times the byte; a minimum is -offset · scale.
         */
        SUPER_BLOCK(1, 1),
        /**
         * One word per group: bytes s and m of column i, then of column i + COUNT. A scale is d · s, a minimum is -dmin
         * · m.
         */
        SUPER_BLOCK_AND_MINIMUM(2, 2);

        /** Vectors per super-block. */
        final int perSuperBlock;

        private final int perTwoGroups;

        Scales(int perSuperBlock, int perTwoGroups) {
            this.perSuperBlock = perSuperBlock;
            this.perTwoGroups = perTwoGroups;
        }
    }

    /** Bits per quant in a panel. */
    final int bits;
    /** Inputs that share a scale. */
    final int group;

    final Scales scales;
    /** What is subtracted from an unsigned quant, in types without minimums. */
    final int offset;

    QuantFormat(int bits, int group, Scales scales, int offset) {
        this.bits = bits;
        this.group = group;
        this.scales = scales;
        this.offset = offset;
    }

    /** The format of a quantised type. */
    static QuantFormat of(ElementType type) {
        return switch (type) {
            case Q4_0 -> Q4_0;
            case Q4_1 -> Q4_1;
            case Q5_0 -> Q5_0;
            case Q5_1 -> Q5_1;
            case Q8_0 -> Q8_0;
            case Q4_K -> Q4_K;
            case Q5_K -> Q5_K;
            case Q6_K -> Q6_K;
            case F32, F16, BF16 -> throw new IllegalArgumentException(type + " is not quantised");
        };
    }

    /** The index, in vectors from the panel's start, of the words for the super-block of input {@code k}. */
    int superBlockVector(int k) {
        return k / SUPER_BLOCK * scales.perSuperBlock;
    }

    /** The index of the words for the scales of the group of input {@code k}. */
    int scaleVector(int depth, int k) {
        return superBlockVector(depth) + k / group * scales.perTwoGroups / 2;
    }

    /** The index of the first words for the quants of input {@code k}, which begins a unit. */
    int quantVector(int depth, int k) {
        return scaleVector(depth, depth) + k * bits / Integer.SIZE * 2;
    }

    /** Vectors per panel. */
    int vectors(int depth) {
        return quantVector(depth, depth);
    }

    /**
     * By what an input is multiplied before kernels see it. Kernels mask a quant where it lies in its word, which gives
     * quant · 2^shift, and this is 2^-shift.
     *
     * @param k the input; the factors repeat after 16
     */
    float inputFactor(int k) {
        int shift = switch (bits) {
            case 4 -> k % 8 == 7 ? 0 : 4 * (k % 8);
            case 6 -> k % 16 == 15 ? 0 : 6 * (k % 16 % 5);
            case 8 -> k % 4 == 3 ? 0 : 8 * (k % 4);
            default -> throw new IllegalStateException(bits + " bits");
        };
        return Math.scalb(1f, -shift);
    }
}
