package dev.tandem.engine.kv;

import java.util.Arrays;

/**
 * The blocks that hold one sequence's KV, in token order. All of them are in one place.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public final class BlockTable {
    private Place place = Place.GPU;
    private int[] blocks = new int[4];
    private int count;

    public Place place() {
        return place;
    }

    public int count() {
        return count;
    }

    public int block(int index) {
        return blocks[index];
    }

    /** A copy: plans keep their own. */
    public int[] toArray() {
        return Arrays.copyOf(blocks, count);
    }

    void place(Place next) {
        if (count > 0) {
            throw new IllegalStateException("a table with " + count + " blocks cannot change its place");
        }
        place = next;
    }

    void add(int block) {
        if (count == blocks.length) {
            blocks = Arrays.copyOf(blocks, count * 2);
        }
        blocks[count++] = block;
    }

    void clear() {
        count = 0;
    }
}
