package dev.tandem.engine.kv;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one sequence, in token order. All of them are in one tier.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable {
    private KvTier tier = KvTier.GPU;
    private int[] blocks = new int[4];
    private int count;
    /** The last result of {@link #toArray}; null once the table has changed. */
    private int @Nullable [] snapshot;
    /** Of the last block that is registered. */
    private @Nullable PrefixNode node;
    /** Whether full blocks are registered in the prefix tree of the tier. */
    private boolean registers;
    /** Whether some full block of the prompt is yet to be registered. */
    private boolean pending;
    /** Blocks that were taken from the prefix cache when the sequence last started or was last moved. */
    private int hits;
    /** What the prefix cache was last found to hold of the sequence, by tier. */
    private final Found foundOnGpu = new Found();

    private final Found foundOnHost = new Found();
    /** Of {@link PrefixHashes}. */
    private long @Nullable [] promptHashes;

    /** The longest prefix of a sequence that one tier's cache held when it was last looked up. */
    static final class Found {
        @Nullable
        PrefixNode node;

        int[] blocks = {};
    }

    /** Where the blocks are. */
    public KvTier tier() {
        return tier;
    }

    /** Number of blocks. */
    public int count() {
        return count;
    }

    /** The block that holds the {@code index}-th run of tokens. */
    public int block(int index) {
        return blocks[index];
    }

    /** The blocks as plans keep them. The array is never changed; calls share it until the table changes. */
    public int[] toArray() {
        if (snapshot == null) {
            snapshot = Arrays.copyOf(blocks, count);
        }
        return snapshot;
    }

    /** Blocks that were taken from the prefix cache when the sequence last started or was last moved. */
    public int hits() {
        return hits;
    }

    void hits(int blocks) {
        hits = blocks;
    }

    Found found(KvTier inTier) {
        return switch (inTier) {
            case GPU -> foundOnGpu;
            case HOST -> foundOnHost;
        };
    }

    long @Nullable [] promptHashes() {
        return promptHashes;
    }

    void promptHashes(long[] hashes) {
        promptHashes = hashes;
    }

    boolean isPending() {
        return pending;
    }

    void pending(boolean next) {
        pending = next;
    }

    @Nullable
    PrefixNode node() {
        return node;
    }

    void node(@Nullable PrefixNode next) {
        node = next;
    }

    boolean registers() {
        return registers;
    }

    void registers(boolean next) {
        registers = next;
    }

    void tier(KvTier next) {
        if (count > 0) {
            throw new IllegalStateException(
                    "a table with " + count + " blocks cannot change its tier; move its KV instead");
        }
        tier = next;
    }

    void add(int block) {
        if (count == blocks.length) {
            blocks = Arrays.copyOf(blocks, count * 2);
        }
        blocks[count++] = block;
        snapshot = null;
    }

    void replace(int index, int block) {
        blocks[index] = block;
        snapshot = null;
    }

    void clear() {
        count = 0;
        registers = false; // a step that was planned before may still name its tokens
        snapshot = null;
    }
}
