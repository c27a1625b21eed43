package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Step buffers, by how their step is launched.
 *
 * @param graph of steps that are replayed
 * @param graphRows max rows of such a step, without slots; 0 without graphs
 * @param first sub-batch of all other steps
 * @param second sub-batch; empty without attention threads
 */
public record StepBuffers(StepBuffer graph, int graphRows, StepBuffer first, Optional<StepBuffer> second)
        implements AutoCloseable {
    /** Max number of buffers. */
    public static final int MAX = 3;

    /** Max logit adjustments of a step; they take a MiB. */
    private static final int MAX_ADJUSTMENTS = 1 << 16;

    /**
     * Max sizes of steps.
     *
     * @param graphRows rows of steps that are replayed, without slots
     * @param rows of a step, without slots
     * @param sequences of a step
     * @param slots for in-flight tokens, resumed ones included; 0 without attention threads
     * @param tables of the block tables
     */
    public record Sizes(int graphRows, int rows, int sequences, int slots, TableSizes tables) {
        /** Max rows that a step samples; also the max rows of a second sub-batch. */
        int sampled() {
            return sequences + slots;
        }

        /** Max tiles of prefill attention of a step. */
        int tiles(ModelShape shape) {
            return rows / shape.tileTokens() + sequences + 1;
        }
    }

    /**
     * Allocates the buffers; when one of them cannot be allocated, frees those before it.
     *
     * @param graphs whether steps are replayed from graphs
     * @throws dev.tandem.cuda.ffi.CudaException when memory is short
     */
    public static StepBuffers of(Device device, ModelShape shape, Sizes sizes, boolean graphs) {
        int graphRows = sizes.graphRows() + sizes.slots();
        int graphTiles = GraphCache.maxTiles(graphRows, sizes.sequences(), shape);
        int tiles = sizes.tiles(shape);
        int sampled = sizes.sampled();
        List<StepBuffer> opened = new ArrayList<>();
        try {
            opened.add(new StepBuffer(
                    device,
                    graphRows,
                    graphRows,
                    sizes.slots(),
                    graphTiles,
                    sizes.tables(),
                    MAX_ADJUSTMENTS,
                    "steps replayed from graphs"));
            opened.add(new StepBuffer(
                    device,
                    sizes.rows() + sizes.slots(),
                    sampled,
                    sizes.slots(),
                    tiles,
                    sizes.tables(),
                    MAX_ADJUSTMENTS,
                    "mixed steps"));
            if (sizes.slots() > 0) {
                opened.add(new StepBuffer(
                        device, sampled, sampled, sizes.slots(), tiles, sizes.tables(), 0, "second sub-batches"));
            }
        } catch (RuntimeException | Error e) {
            Resources.closeAfter(e, opened);
            throw e;
        }
        Optional<StepBuffer> second = sizes.slots() > 0 ? Optional.of(opened.get(2)) : Optional.empty();
        return new StepBuffers(opened.get(0), graphs ? sizes.graphRows() : 0, opened.get(1), second);
    }

    /** Bytes of GPU memory of all buffers. */
    public long bytes() {
        return graph.bytes() + first.bytes() + second.map(StepBuffer::bytes).orElse(0L);
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(graph, first));
        second.ifPresent(all::add);
        Resources.closeAll(all);
    }
}
