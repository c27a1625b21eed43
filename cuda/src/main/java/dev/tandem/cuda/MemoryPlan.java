package dev.tandem.cuda;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.forward.ForwardBuffers;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.PrefillOffload;
import dev.tandem.cuda.step.GraphCache;
import java.util.Locale;

/**
 * How many rows, slots and blocks the GPU's memory is laid out for, as far as that follows from options and model
 * alone.
 *
 * @param decodeRows max rows of decode steps that are replayed from graphs, without slots
 * @param graphRows max rows of all steps that are replayed from graphs, without slots
 * @param slots for in-flight tokens, on top of a step's rows; 0 without attention threads
 * @param maxRows of a step, without slots
 * @param maxSequences of a step
 * @param stagingBlocks for one layer of prompts whose KV is offloaded; 0 without attention threads
 */
record MemoryPlan(int decodeRows, int graphRows, int slots, int maxRows, int maxSequences, int stagingBlocks) {
    /** Steps of prompts and decodes are graphs up to so many rows even where fewer sequences decode. */
    private static final int MIN_GRAPH_ROWS = 256;
    /** Rows up to which decode steps are graphs. */
    private static final int MAX_GRAPH_ROWS = 512;
    /** Left for graphs and what the driver takes later. */
    private static final long RESERVE_BYTES = 512L << 20;

    static MemoryPlan of(CudaOptions options) {
        boolean hybrid = options.attentionThreads() > 0;
        int maxRows = options.maxBatchTokens();
        int decodeRows = GraphCache.roundUp(Math.min(MAX_GRAPH_ROWS, options.maxSequences()));
        int wholeBuckets = maxRows / GraphCache.BUCKET_STEP * GraphCache.BUCKET_STEP;
        return new MemoryPlan(
                decodeRows,
                Math.max(decodeRows, Math.min(MIN_GRAPH_ROWS, wholeBuckets)),
                hybrid ? HostLinkMemory.MAX_SLOTS : 0,
                maxRows,
                options.maxSequences(),
                hybrid ? maxRows / ModelShape.BLOCK_TOKENS + options.maxSequences() : 0);
    }

    /** Rows of the forward pass's buffers. */
    ForwardBuffers.Rows rows() {
        return new ForwardBuffers.Rows(maxRows + slots, slots > 0 ? sampledRows() : 0, sampledRows());
    }

    /** Rows that a step may sample, with its slots; also the rows of a second sub-batch. */
    int sampledRows() {
        return maxSequences + slots;
    }

    /** Rows of steps that are replayed from graphs, with slots. */
    int graphRowsWithSlots() {
        return graphRows + slots;
    }

    /** Tiles of prefill attention of a step. */
    int tiles(ModelShape shape) {
        return maxRows / shape.tileTokens() + maxSequences + 1;
    }

    /** Block numbers of all sequences of a step. */
    int tables(int gpuBlocks) {
        return gpuBlocks + maxSequences + stagingBlocks;
    }

    /**
     * KV blocks that fit into the GPU's memory.
     *
     * @param used bytes that weights and activations take
     * @param free bytes
     * @param total bytes
     * @throws dev.tandem.cuda.ffi.CudaException when none fits
     */
    int gpuBlocks(ModelShape shape, double utilization, long used, long free, long total) {
        long budget = Math.min((long) (utilization * total) - used, free) - RESERVE_BYTES;
        long staging = stagingBlocks > 0
                ? PrefillOffload.STAGES * stagingBlocks * shape.blockBytes() + PrefillOffload.bytes()
                : 0;
        long blocks = (budget - staging) / (shape.blockBytes() * shape.config().layers());
        if (blocks < 1) {
            throw new CudaException(String.format(
                    Locale.ROOT,
                    "weights and activations take %.2f GiB of the %.2f GiB that --gpu-memory-utilization %.2f allows,"
                            + " which leaves no room for KV blocks; raise it, or lower --max-num-batched-tokens",
                    used / 0x1p30,
                    utilization * total / 0x1p30,
                    utilization));
        }
        return (int) Math.min(blocks, Integer.MAX_VALUE / ModelShape.BLOCK_TOKENS);
    }
}
