package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * The blocks that hold one sequence's KV, in token order. All of them are in one place.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable {
    private KvTier tier = KvTier.GPU;
    private int[] blocks = new int[4];
    private int count;
    /** What {@link #toArray} gave last; null once the table has changed. */
    private int[] snapshot;

    public KvTier tier() {
        return tier;
    }

    public int count() {
        return count;
    }

    public int block(int index) {
        return blocks[index];
    }

    /** As plans keep it: never changed, and shared until the table grows. */
    public int[] toArray() {
        if (snapshot == null) {
            snapshot = Arrays.copyOf(blocks, count);
        }
        return snapshot;
    }

    void tier(KvTier next) {
        if (count > 0) {
            throw new IllegalStateException("a table with " + count + " blocks cannot change its place");
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

    void clear() {
        count = 0;
        snapshot = null;
    }
}
