package dev.tandem.engine.kv;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one sequence, a {@link GroupTable} per group of layers. All of them are in one tier.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable {
    private KvTier tier = KvTier.GPU;
    /** Of the first group; planning reads it for every sequence, so it is a field. */
    private final GroupTable first = new GroupTable();
    /** One table per group of layers; those of further groups are made when they are first asked for. */
    private GroupTable[] groups = {first};

    /** The last result of {@link #views}. */
    private List<KvView> views = List.of();
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

    /** Number of pages that the sequence holds in all groups. */
    public int count() {
        int count = 0;
        for (GroupTable group : groups) {
            count += group.count();
        }
        return count;
    }

    /** Whether the sequence holds no block. */
    public boolean isEmpty() {
        return first.count() == 0;
    }

    /** The blocks of a group of layers. */
    public GroupTable group(int index) {
        if (index == 0) {
            return first;
        }
        if (index >= groups.length) {
            int length = groups.length;
            groups = Arrays.copyOf(groups, index + 1);
            for (int i = length; i < groups.length; i++) {
                groups[i] = new GroupTable();
            }
        }
        return groups[index];
    }

    /** Number of groups with a table. */
    public int groups() {
        return groups.length;
    }

    /** The blocks of each group as plans keep them; calls share the list until a table changes. */
    public List<KvView> views() {
        if (groups.length == 1) {
            return first.views();
        }
        boolean changed = views.size() != groups.length;
        for (int i = 0; !changed && i < groups.length; i++) {
            changed = views.get(i) != groups[i].view();
        }
        if (changed) {
            KvView[] next = new KvView[groups.length];
            Arrays.setAll(next, i -> groups[i].view());
            views = List.of(next);
        }
        return views;
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
        if (!isEmpty()) {
            throw new IllegalStateException(
                    "a table with " + count() + " blocks cannot change its tier; move its KV instead");
        }
        tier = next;
    }

    void clear() {
        for (GroupTable group : groups) {
            group.clear();
        }
        registers = false; // a step that was planned before may still name its tokens
    }
}
