package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * What a sequence takes from the prefix cache when it starts in a tier or is moved there.
 *
 * <p>A draft decides it and {@link KvCache} carries it out. The arrays are not to be changed.
 *
 * @param tier where the sequence will be
 * @param found blocks of that tier that hold the sequence's first tokens, in token order; those of all groups of layers
 *     follow each other. Behind a group's window a block may be {@link #ABSENT}
 * @param first [groups] index of the first block that the sequence lists in its own table; above 0 when those before
 *     lie behind a sliding window
 * @param shared index after the last block that it lists in each group; a group whose window begins later lists none
 * @param other blocks of the other tier that hold the sequence's first tokens, as {@code found} has them
 * @param copyFrom [groups] index among {@code other}'s of the first block that is copied; its first token is the one
 *     after those of the shared blocks, or the first within the group's window
 * @param copyTo index after the last block that is copied in each group; 0 when none is
 * @param tokens from the start that need not be computed: those of the shared and of the copied blocks
 */
public record PrefixUse(
        KvTier tier, int[] found, int[] first, int shared, int[] other, int[] copyFrom, int copyTo, int tokens) {
    /** In {@code found} and {@code other}: the cache does not have the block. */
    public static final int ABSENT = PrefixNode.ABSENT;

    private static final int[] NONE = {};
    private static final PrefixUse NOTHING_ON_GPU = sharing(KvTier.GPU, NONE, NONE, 0, 0);
    private static final PrefixUse NOTHING_ON_HOST = sharing(KvTier.HOST, NONE, NONE, 0, 0);

    /** Takes nothing. */
    public static PrefixUse nothing(KvTier tier) {
        return switch (tier) {
            case GPU -> NOTHING_ON_GPU;
            case HOST -> NOTHING_ON_HOST;
        };
    }

    /** Shares the blocks of each group from {@code first} on, up to the {@code shared}-th, and copies none. */
    public static PrefixUse sharing(KvTier tier, int[] found, int[] first, int shared, int tokens) {
        return new PrefixUse(tier, found, first, shared, NONE, NONE, 0, tokens);
    }

    /**
     * The same use, which also copies blocks of the other tier; the parameters are those of the record.
     *
     * @param source {@code other}
     * @param begin {@code copyFrom}
     * @param end {@code copyTo}
     * @param known {@code tokens}
     */
    public PrefixUse copying(int[] source, int[] begin, int end, int known) {
        return new PrefixUse(tier, found, first, shared, source, begin, end, known);
    }

    /** The block of a group that holds the {@code index}-th run of tokens. */
    public int block(int group, int index) {
        return found[index * first.length + group];
    }

    /** Number of blocks that the sequence lists in its own table. */
    public int listed() {
        int count = 0;
        for (int begin : first) {
            count += Math.max(0, shared - begin);
        }
        return count;
    }

    /** Whether blocks are copied from the other tier. */
    public boolean copies() {
        return copyTo > 0;
    }

    /** Blocks of the other tier, from the start of {@code other} on, that hold what is copied and what precedes it. */
    public int sources() {
        return copyTo * first.length;
    }

    /** Whether the other tier has all blocks that are copied. */
    public boolean hasCopied() {
        for (int group = 0; group < copyFrom.length; group++) {
            for (int i = copyFrom[group]; i < copyTo; i++) {
                if (other[i * first.length + group] == ABSENT) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The blocks that are copied in a group. */
    int[] copied(int group) {
        int[] blocks = new int[copyTo - copyFrom[group]];
        Arrays.setAll(blocks, i -> other[(copyFrom[group] + i) * first.length + group]);
        return blocks;
    }
}
