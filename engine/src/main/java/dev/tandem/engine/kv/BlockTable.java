package dev.tandem.engine.kv;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one sequence, in token order. All of them are in one tier. Blocks behind a sliding window are gone.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable {
    private KvTier tier = KvTier.GPU;
    /** [count] the blocks that the sequence holds; those behind a sliding window are gone. */
    private int[] blocks = new int[4];
    /** Index of {@code blocks[0]} among all blocks of the sequence. */
    private int first;

    private int count;
    /** The last result of {@link #view}; null once the table has changed. */
    private @Nullable KvView view;
    /** Of the last block that is registered. */
    private @Nullable PrefixNode node;
    /** Whether full blocks are registered in the prefix tree of the tier. */
    private boolean registers;
    /** Whether some full block of the prompt is yet to be registered. */
    private boolean pending;
    /** Index after the last block that was hit when the sequence last started or was last moved. */
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

    /** Number of blocks that the sequence holds. */
    public int count() {
        return count;
    }

    /** Index of the first block that the sequence holds; above 0 when a sliding window has passed those before. */
    public int first() {
        return first;
    }

    /** Index after the last block. */
    public int end() {
        return first + count;
    }

    /** The block that holds the {@code index}-th run of tokens, from {@link #first} to {@link #end}. */
    public int block(int index) {
        return blocks[index - first];
    }

    /** The blocks as plans keep them; calls share the view until the table changes. */
    public KvView view() {
        if (view == null) {
            view = new KvView(first, Arrays.copyOf(blocks, count));
        }
        return view;
    }

    /** Index after the last block that was hit in the prefix cache when the sequence last started or was moved. */
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

    /** Says at which index the blocks of an empty table begin. */
    void first(int next) {
        if (count > 0) {
            throw new IllegalStateException("a table with " + count + " blocks cannot begin at another one");
        }
        first = next;
        view = null;
    }

    void add(int block) {
        if (count == blocks.length) {
            blocks = Arrays.copyOf(blocks, count * 2);
        }
        blocks[count++] = block;
        view = null;
    }

    void replace(int index, int block) {
        blocks[index - first] = block;
        view = null;
    }

    /** Removes the blocks before {@code next}. */
    void removeBefore(int next) {
        int removed = next - first;
        System.arraycopy(blocks, removed, blocks, 0, count - removed);
        count -= removed;
        first = next;
        view = null;
    }

    void clear() {
        first = 0;
        count = 0;
        registers = false; // a step that was planned before may still name its tokens
        view = null;
    }
}
