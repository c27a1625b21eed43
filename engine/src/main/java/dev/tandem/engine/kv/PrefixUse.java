package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * What a sequence takes from the prefix cache when it starts in a tier or is moved there.
 *
 * <p>A draft decides it and {@link KvCache} carries it out. The arrays are not to be changed.
 *
 * @param tier where the sequence will be
 * @param found blocks of that tier that hold the sequence's first tokens, in token order
 * @param first index in {@code found} of the first block that the sequence lists in its own table; above 0 when those
 *     before lie behind a sliding window
 * @param shared index in {@code found} after the last block that it lists
 * @param other blocks of the other tier that hold the sequence's first tokens, in token order
 * @param copyFrom index in {@code other} of the first block that is copied; its first token is the one after those of
 *     the shared blocks
 * @param copyTo index in {@code other} after the last block that is copied
 * @param tokens from the start that need not be computed: those of the shared and of the copied blocks
 */
public record PrefixUse(
        KvTier tier, int[] found, int first, int shared, int[] other, int copyFrom, int copyTo, int tokens) {
    private static final int[] NONE = {};
    private static final PrefixUse NOTHING_ON_GPU = new PrefixUse(KvTier.GPU, NONE, 0, 0, NONE, 0, 0, 0);
    private static final PrefixUse NOTHING_ON_HOST = new PrefixUse(KvTier.HOST, NONE, 0, 0, NONE, 0, 0, 0);

    /** Takes nothing. */
    public static PrefixUse nothing(KvTier tier) {
        return switch (tier) {
            case GPU -> NOTHING_ON_GPU;
            case HOST -> NOTHING_ON_HOST;
        };
    }

    /** Shares the first blocks of {@code found} and copies none. */
    public static PrefixUse sharing(KvTier tier, int[] found, int shared, int tokens) {
        return new PrefixUse(tier, found, 0, shared, NONE, 0, 0, tokens);
    }

    /** Shares the blocks of {@code found} from {@code first} on, up to the {@code shared}-th, and copies none. */
    public static PrefixUse sharing(KvTier tier, int[] found, int first, int shared, int tokens) {
        return new PrefixUse(tier, found, first, shared, NONE, 0, 0, tokens);
    }

    /** Shares the first blocks of {@code found} and copies those of {@code other} from one index to another. */
    public static PrefixUse copying(
            KvTier tier, int[] found, int shared, int[] other, int copyFrom, int copyTo, int tokens) {
        return new PrefixUse(tier, found, 0, shared, other, copyFrom, copyTo, tokens);
    }

    /** Number of blocks that the sequence lists in its own table. */
    public int listed() {
        return shared - first;
    }

    /** Whether blocks are copied from the other tier. */
    public boolean copies() {
        return copyTo > copyFrom;
    }

    /** The blocks that are copied. */
    int[] copied() {
        return Arrays.copyOfRange(other, copyFrom, copyTo);
    }
}
