package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.attention.AttentionScratch;
import dev.tandem.cpu.attention.KvStore;
import dev.tandem.cpu.attention.PagedAttention;
import dev.tandem.cpu.topology.WorkerPool;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Attention on several workers has the bits of one worker's, whether tiles are whole or in segments. */
class ParallelAttentionTest {
    private static final int HEAD_DIM = 64;
    private static final int GROUP = 3;

    /** Contexts of one segment, of several, and of one token more than two; one token and more of them. */
    @ParameterizedTest
    @CsvSource({"100, 0, 1", "513, 0, 1", "1500, 0, 1", "1500, 700, 1", "1500, 0, 5", "290, 33, 2", "600, 0, 40"})
    void theThreadsChangeNoBit(int context, int window, int tiles) {
        PagedAttention.Rule rule = new PagedAttention.Rule(GROUP, window, 0.125);
        int blockCount = Math.ceilDiv(context, KvStore.BLOCK_TOKENS);
        int[] blocks = IntStream.range(0, blockCount).toArray();
        int row = GROUP * HEAD_DIM;
        float[] queries = random(1, tiles * row);
        try (Arena arena = Arena.ofShared()) {
            KvStore store = new KvStore(KvTier.GPU, blockCount, 1, 1, HEAD_DIM, DataType.BFLOAT16, arena);
            for (int token = 0; token < context; token++) {
                float[] keys = random(2 * token, HEAD_DIM);
                float[] values = random(2 * token + 1, HEAD_DIM);
                store.append(0, blocks[token / 16], token % 16, 0, keys, 0, values, 0);
            }
            float[] expected = new float[tiles * row];
            AttentionScratch scratch = new AttentionScratch(PagedAttention.maxRows(GROUP), HEAD_DIM, arena);
            for (int i = 0; i < tiles; i++) {
                PagedAttention.tile(tile(store, blocks, context, rule, queries, expected, i), scratch);
            }
            for (int threads : new int[] {1, 2, 3, 8}) {
                try (WorkerPool workers = new WorkerPool(threads, false)) {
                    ParallelAttention attention = new ParallelAttention(workers, GROUP, HEAD_DIM, arena);
                    float[] out = new float[tiles * row];
                    Arrays.fill(out, Float.NaN);
                    workers.beginStep();
                    for (int round = 0; round < 2; round++) { // the second round reuses the partial results
                        attention.compute(tiles, threads, i -> tile(store, blocks, context, rule, queries, out, i));
                    }
                    workers.endStep();
                    assertThat(out).as("%d threads", threads).isEqualTo(expected);
                }
            }
        }
    }

    /** A tile that is cut is asked for once to count its 6 segments, once for each of them, and once to merge them. */
    @ParameterizedTest
    @CsvSource({"1, 8", "15, 120", "16, 16"})
    void fewTilesAreCutIntoSegments(int tiles, int expected) {
        int context = 1500;
        PagedAttention.Rule rule = new PagedAttention.Rule(GROUP, 0, 0.125);
        int[] blocks = new int[Math.ceilDiv(context, KvStore.BLOCK_TOKENS)];
        float[] queries = random(1, tiles * GROUP * HEAD_DIM);
        float[] out = new float[queries.length];
        try (Arena arena = Arena.ofShared();
                WorkerPool workers = new WorkerPool(4, false)) {
            KvStore store = new KvStore(KvTier.GPU, 1, 1, 1, HEAD_DIM, DataType.BFLOAT16, arena);
            ParallelAttention attention = new ParallelAttention(workers, GROUP, HEAD_DIM, arena);
            AtomicInteger calls = new AtomicInteger();
            attention.compute(tiles, 4, i -> {
                calls.incrementAndGet();
                return tile(store, blocks, context, rule, queries, out, i);
            });
            assertThat(calls).hasValue(expected);
        }
    }

    private static PagedAttention.Tile tile(
            KvStore store,
            int[] blocks,
            int context,
            PagedAttention.Rule rule,
            float[] queries,
            float[] out,
            int index) {
        int row = GROUP * HEAD_DIM;
        return new PagedAttention.Tile(
                store,
                0,
                0,
                KvView.of(blocks),
                context - 1 - index,
                1,
                rule,
                queries,
                index * row,
                row,
                out,
                index * row,
                row);
    }

    private static float[] random(long seed, int size) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] values = new float[size];
        for (int i = 0; i < size; i++) {
            values[i] = (float) (2 * random.nextDouble() - 1);
        }
        return values;
    }
}
