package dev.tandem.engine.kv;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one sequence: the {@link GroupTable} of its first group of layers, which has those of further
 * groups. All blocks are in one tier.
 *
 * <p>The first group's table is no object of its own because planning reads it for every sequence. With one, a plan for
 * 1,000 running requests took 1.15 to 1.4 times the CPU time on a busy machine.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable extends GroupTable {
    private static final GroupTable[] NONE = {};

    private KvTier tier = KvTier.GPU;
    /** Of the groups after the first; each is made when it is first asked for. */
    private GroupTable[] further = NONE;
    /** The last result of {@link #views} with further groups. */
    private List<KvView> allViews = List.of();
    /** Of the last block that is registered. */
    private @Nullable PrefixNode node;
    /** Tokens up to the end of the block after it. */
    private int nextFull;
    /** Whether full blocks are registered in the prefix tree of the tier. */
    private boolean registers;
    /** Whether some full block of the prompt is yet to be registered. */
    private boolean pending;
    /** Index after the last block that was hit when the sequence last started or was last moved. */
    private int hits;
    /** What the prefix cache was last found to hold of the sequence, by tier. */
    private final Found foundOnGpu = new Found();

    private final Found foundOnHost = new Found();
    /**
     * {@link PrefixTree#firstBlocks} of a tier's tree when it had no first block of the sequence; -1 when that is not
     * known. It is no part of {@link Found}, because a plan that asks all sequences would read one more object each.
     */
    private long missedOnGpu = -1;

    private long missedOnHost = -1;
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

    /** Number of pages that the sequence holds in all groups. */
    public int pages() {
        int pages = count();
        for (GroupTable table : further) {
            pages += table.count();
        }
        return pages;
    }

    /** Whether the sequence holds no block. */
    public boolean isEmpty() {
        return count() == 0;
    }

    /** The blocks of a group of layers. */
    public GroupTable group(int index) {
        if (index == 0) {
            return this;
        }
        if (index > further.length) {
            int length = further.length;
            further = Arrays.copyOf(further, index);
            for (int i = length; i < index; i++) {
                further[i] = new GroupTable();
            }
        }
        return further[index - 1];
    }

    /** Number of groups with a table. */
    public int groups() {
        return 1 + further.length;
    }

    /** The blocks of each group as plans keep them; calls share the list until a table changes. */
    @Override
    public List<KvView> views() {
        if (further.length == 0) {
            return super.views();
        }
        boolean changed = allViews.size() != groups();
        for (int i = 0; !changed && i < groups(); i++) {
            changed = allViews.get(i) != group(i).view();
        }
        if (changed) {
            KvView[] next = new KvView[groups()];
            Arrays.setAll(next, i -> group(i).view());
            allViews = List.of(next);
        }
        return allViews;
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

    long missed(KvTier inTier) {
        return switch (inTier) {
            case GPU -> missedOnGpu;
            case HOST -> missedOnHost;
        };
    }

    void missed(KvTier inTier, long firstBlocks) {
        switch (inTier) {
            case GPU -> missedOnGpu = firstBlocks;
            case HOST -> missedOnHost = firstBlocks;
        }
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

    /** Tokens up to the end of the first block that is not registered: with fewer there is nothing to register. */
    int nextFull() {
        return nextFull;
    }

    /** @param blockTokens tokens per block of the tier */
    void node(@Nullable PrefixNode next, int blockTokens) {
        node = next;
        nextFull = (next == null ? 1 : next.depth + 1) * blockTokens;
    }

    boolean registers() {
        return registers;
    }

    void registers(boolean next) {
        registers = next;
    }

    void tier(KvTier next) {
        if (!isEmpty()) {
            throw new IllegalStateException(
                    "a table with " + pages() + " blocks cannot change its tier; move its KV instead");
        }
        tier = next;
    }

    @Override
    void clear() {
        super.clear();
        for (GroupTable table : further) {
            table.clear();
        }
        registers = false; // a step that was planned before may still name its tokens
    }
}
