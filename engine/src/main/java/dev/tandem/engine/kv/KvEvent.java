package dev.tandem.engine.kv;

import java.util.Optional;
import java.util.OptionalLong;

/**
 * A change of what the prefix caches of both tiers hold.
 *
 * <p>Blocks are named by chain hashes, each of a cache salt and of all tokens up to the block's last. Every event
 * speaks of blocks of the GPU's size: a host block is several of them.
 *
 * <p>Where layers have different windows, each event speaks of the layers with one of them. A prefix can then be hit if
 * all blocks are there in layers without a window, and in each other group the last blocks, as many as its window
 * reads. Where all layers have one window, events speak of prefixes alone that are there from their first block on.
 */
public sealed interface KvEvent {
    /**
     * The layers with one window, in a model whose layers have different ones.
     *
     * @param index of the first group of these layers in {@link KvLayout}; the others hold the same tokens
     * @param window tokens that a token attends to at most, itself included; 0 for all
     */
    record Group(int index, int window) {}

    /**
     * A tier holds the KV of blocks that follow each other, and did not hold it before.
     *
     * @param tier where it is
     * @param group the layers whose KV it is; empty where all layers have the same window, or none
     * @param hashes [blocks] as unsigned numbers
     * @param parent hash of the block before the first one, which the tier may lack in layers with a window; empty when
     *     there is none
     * @param tokens [blocks * blockTokens]
     * @param blockTokens tokens per block
     * @param salt of the prefix
     */
    record Stored(
            KvTier tier,
            Optional<Group> group,
            long[] hashes,
            OptionalLong parent,
            int[] tokens,
            int blockTokens,
            String salt)
            implements KvEvent {}

    /**
     * A tier no longer holds the KV of some blocks.
     *
     * @param group as {@link Stored} has it
     * @param hashes [blocks] those that follow a block come before it
     */
    record Removed(KvTier tier, Optional<Group> group, long[] hashes) implements KvEvent {}

    /** No tier holds any prefix now. */
    record Cleared() implements KvEvent {}
}
