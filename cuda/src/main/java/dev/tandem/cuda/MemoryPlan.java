package dev.tandem.cuda;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.forward.ForwardBuffers;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.StepBuffers;
import dev.tandem.cuda.step.TableSizes;
import dev.tandem.engine.kv.KvLayout;
import java.util.List;
import java.util.Locale;

/**
 * The rows, slots and blocks that GPU memory is sized for, as far as they follow from options and model alone.
 *
 * @param decodeRows max rows of decode steps that are replayed from graphs, without slots
 * @param graphRows max rows of all steps that are replayed from graphs, without slots
 * @param slots for in-flight tokens, resumed ones included, besides a step's rows; 0 without attention threads
 * @param maxRows of a step, without slots
 * @param maxSequences of a step
 * @param hostBytes memory of the host's KV pool
 * @param offloadsPrefill whether prefill KV goes to the host layer by layer; false without attention threads
 */
record MemoryPlan(
        int decodeRows,
        int graphRows,
        int slots,
        int maxRows,
        int maxSequences,
        long hostBytes,
        boolean offloadsPrefill) {
    /** Min rows up to which mixed steps are graphs, even where fewer sequences decode. */
    private static final int MIN_GRAPH_ROWS = 256;
    /** Max rows of decode steps that are graphs. */
    private static final int MAX_GRAPH_ROWS = 512;
    /** Bytes left for graphs and for memory that the driver takes later. */
    private static final long RESERVE_BYTES = 512L << 20;

    /** The plan of a set of options. */
    static MemoryPlan of(CudaOptions options) {
        boolean hasHostTier = options.attentionThreads() > 0;
        int maxRows = options.maxBatchTokens();
        int decodeRows = GraphCache.roundUp(Math.min(MAX_GRAPH_ROWS, options.maxSequences()));
        int wholeBuckets = maxRows / GraphCache.BUCKET_STEP * GraphCache.BUCKET_STEP;
        return new MemoryPlan(
                decodeRows,
                Math.max(decodeRows, Math.min(MIN_GRAPH_ROWS, wholeBuckets)),
                hasHostTier ? options.slots() : 0,
                maxRows,
                options.maxSequences(),
                options.hostBytes(),
                hasHostTier);
    }

    /** Rows of the forward pass's buffers. */
    ForwardBuffers.Rows rows() {
        return new ForwardBuffers.Rows(maxRows + slots, slots > 0 ? sampledRows() : 0, sampledRows());
    }

    /** Max rows that a step samples, including its slots; also the max rows of a second sub-batch. */
    int sampledRows() {
        return maxSequences + slots;
    }

    /** Max rows of steps that are replayed from graphs, including slots. */
    int graphRowsWithSlots() {
        return graphRows + slots;
    }

    /** Max sizes of the steps' inputs. */
    StepBuffers.Sizes stepSizes(int gpuBlocks, ModelShape shape) {
        return new StepBuffers.Sizes(graphRows, maxRows, maxSequences, slots, tables(gpuBlocks, shape));
    }

    /**
     * Max block numbers of all sequences of a step, in each group of layers: those of the pool, those that are listed
     * again where sequences share KV, and those of offloaded prefills. All groups of a kind list equally many, so each
     * lists its part of the pages at most; with a window, as many as the sequences hold at a time. Steps that are timed
     * have as many sequences as a graph has rows.
     */
    TableSizes tables(int gpuBlocks, ModelShape shape) {
        KvLayout layout = shape.layout(maxRows);
        long pages = (long) gpuBlocks * layout.groups();
        List<Integer> max = layout.kinds().stream()
                .map(kind -> tables(kind, (pages + KvPools.sharedPages(pages)) / kind.groups(), layout)
                        + maxSequences
                        + offloadedBlocks(shape))
                .toList();
        return new TableSizes(layout, max);
    }

    private int tables(KvLayout.Kind kind, long listed, KvLayout layout) {
        boolean bounded = layout.groups() > 1 && kind.window().slides();
        long sequences = Math.max(maxSequences, graphRows);
        long held = bounded ? sequences * kind.window().maxHeld() / ModelShape.BLOCK_TOKENS : listed;
        return Math.toIntExact(Math.min(listed, held));
    }

    /** Max blocks of the prefills that a step offloads. */
    int offloadedBlocks(ModelShape shape) {
        return offloadsPrefill ? shape.staging().maxTokens() / ModelShape.BLOCK_TOKENS : 0;
    }

    /**
     * Bytes of a block's numbers in the block tables of all step buffers. Those of one group of layers are so few that
     * the reserve covers them.
     */
    private static long tableBytes(KvLayout layout) {
        int lists = layout.kinds().size() * layout.groups() - 1;
        return (1 + KvPools.sharedPages(1)) * lists * StepBuffers.MAX * Integer.BYTES;
    }

    /**
     * KV blocks that fit into GPU memory.
     *
     * @param used bytes that weights and activations take
     * @param free bytes
     * @param total bytes
     * @throws dev.tandem.cuda.ffi.CudaException when none fits
     */
    int kvBlocks(ModelShape shape, double utilization, long used, long free, long total) {
        KvLayout layout = shape.layout(maxRows);
        long list = KvPools.swapOutListBytes(shape, layout, hostBytes);
        long budget = Math.min((long) (utilization * total) - used, free) - RESERVE_BYTES - list;
        long blocks = budget / (shape.blockBytes() + tableBytes(layout));
        if (blocks < 1) {
            throw new CudaException(String.format(
                    Locale.ROOT,
                    "weights, activations and the list of copies to the host take %.2f GiB of the %.2f GiB that"
                            + " --gpu-memory-utilization %.2f allows, which leaves no room for KV blocks; raise it, or"
                            + " lower --max-num-batched-tokens or --host-kv",
                    (used + list) / 0x1p30,
                    utilization * total / 0x1p30,
                    utilization));
        }
        return (int) Math.min(blocks, Integer.MAX_VALUE / ModelShape.BLOCK_TOKENS / layout.groups());
    }
}
