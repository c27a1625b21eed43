package dev.tandem.engine.kv;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The KV blocks of one sequence in the layers of one group, in token order; each is a page. Blocks behind a sliding
 * window are gone.
 *
 * <p>Owned by: engine thread; changed by {@link KvCache} alone.
 */
public sealed class GroupTable permits BlockTable {
    /** [count] the blocks that the sequence holds; those behind a sliding window are gone. */
    private int[] blocks = new int[4];
    /** Index of {@code blocks[0]} among all blocks of the sequence. */
    private int first;

    private int count;
    /** The last result of {@link #view}; null once the table has changed. */
    private @Nullable KvView view;
    /** The last result of {@link #views}; null once the table has changed. */
    private @Nullable List<KvView> views;

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

    /** {@link #view} as the only one of a sequence. */
    List<KvView> views() {
        if (views == null) {
            views = List.of(view());
        }
        return views;
    }

    private void changed() {
        view = null;
        views = null;
    }

    /** Says at which index the blocks of an empty table begin. */
    void first(int next) {
        if (count > 0) {
            throw new IllegalStateException("a table with " + count + " blocks cannot begin at another one");
        }
        first = next;
        changed();
    }

    void add(int block) {
        if (count == blocks.length) {
            blocks = Arrays.copyOf(blocks, count * 2);
        }
        blocks[count++] = block;
        changed();
    }

    void replace(int index, int block) {
        blocks[index - first] = block;
        changed();
    }

    /** Removes the blocks before {@code next}. */
    void removeBefore(int next) {
        int removed = next - first;
        System.arraycopy(blocks, removed, blocks, 0, count - removed);
        count -= removed;
        first = next;
        changed();
    }

    void clear() {
        first = 0;
        count = 0;
        changed();
    }
}
