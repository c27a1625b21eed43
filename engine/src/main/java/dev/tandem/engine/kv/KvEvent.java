package dev.tandem.engine.kv;

import java.util.OptionalLong;

/**
 * A change of what the prefix caches of both tiers hold.
 *
 * <p>Blocks are named by chain hashes, each of a cache salt and of all tokens up to the block's last. Every event
 * speaks of blocks of the GPU's size: a host block is several of them.
 */
public sealed interface KvEvent {
    /**
     * A tier holds the KV of blocks that follow each other, and did not hold it before.
     *
     * @param tier where it is
     * @param hashes [blocks] as unsigned numbers
     * @param parent hash of the block before the first one, which the tier holds; empty when there is none
     * @param tokens [blocks * blockTokens]
     * @param blockTokens tokens per block
     * @param salt of the prefix
     */
    record Stored(KvTier tier, long[] hashes, OptionalLong parent, int[] tokens, int blockTokens, String salt)
            implements KvEvent {}

    /**
     * A tier no longer holds the KV of some blocks.
     *
     * @param hashes [blocks] those that follow a block come before it
     */
    record Removed(KvTier tier, long[] hashes) implements KvEvent {}

    /** No tier holds any prefix now. */
    record Cleared() implements KvEvent {}
}
