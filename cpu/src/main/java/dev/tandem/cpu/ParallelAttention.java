package dev.tandem.cpu;

import dev.tandem.cpu.attention.AttentionScratch;
import dev.tandem.cpu.attention.PagedAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.cpu.topology.WorkerPool;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;

/**
 * Attention over KV blocks on a pool of workers. Many tiles are handed out whole. Of few tiles, the segments are handed
 * out, so that the attention of a single token uses all workers; their results are then merged in order.
 *
 * <p>Owned by: engine thread.
 */
final class ParallelAttention {
    /**
     * Tiles per worker from which on tiles stay whole. The worker that is done last then computes at most a quarter
     * more than its share, and nothing has to be merged. With 2 or 8, decode steps of 36 and 72 tiles on 16 cores took
     * as long within the 3 % by which equal runs differ (constants.jsonl).
     */
    private static final int TILES_PER_WORKER = 4;

    private final WorkerPool workers;
    private final int rows;
    private final int headDim;
    private final AttentionScratch[] scratch;
    /** The results of segments; the list grows as needed. */
    private final List<Partial> partials = new ArrayList<>();

    /** Tiles to compute; workers ask for them in parallel. */
    interface Tiles {
        PagedAttention.Tile get(int index);
    }

    /**
     * @param group query heads per KV head
     * @param arena owns the scratch memory
     */
    ParallelAttention(WorkerPool workers, int group, int headDim, Arena arena) {
        this.workers = workers;
        this.rows = PagedAttention.maxRows(group);
        this.headDim = headDim;
        this.scratch = new AttentionScratch[workers.size()];
        for (int i = 0; i < scratch.length; i++) {
            scratch[i] = new AttentionScratch(rows, headDim, arena);
        }
    }

    /** Computes {@code count} tiles on the pool's first {@code threads} workers. */
    void compute(int count, int threads, Tiles tiles) {
        if (threads == 1 || count >= threads * TILES_PER_WORKER) {
            workers.run(count, threads, (index, worker) -> PagedAttention.tile(tiles.get(index), scratch[worker]));
        } else {
            computeSegments(count, threads, tiles);
        }
    }

    private void computeSegments(int count, int threads, Tiles tiles) {
        int[] begin = new int[count + 1];
        for (int i = 0; i < count; i++) {
            begin[i + 1] = begin[i] + tiles.get(i).segments();
        }
        while (partials.size() < begin[count]) {
            partials.add(PagedAttention.partial(rows, headDim));
        }
        workers.run(begin[count], threads, (index, worker) -> {
            int tile = 0;
            while (begin[tile + 1] <= index) {
                tile++;
            }
            PagedAttention.segment(tiles.get(tile), index - begin[tile], scratch[worker], partials.get(index));
        });
        workers.run(count, threads, (tile, worker) -> {
            Partial result = partials.get(begin[tile]);
            for (int i = begin[tile] + 1; i < begin[tile + 1]; i++) {
                result.merge(partials.get(i));
            }
            PagedAttention.finish(tiles.get(tile), result);
        });
    }
}
