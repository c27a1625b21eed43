package dev.tandem.cuda.tune;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.forward.Extent.Part;
import dev.tandem.cuda.gemm.LayerGemms;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.cuda.step.StepLayout;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;

/**
 * Times steps by the GPU's own clock, replayed from graphs: for {@link GemmAutotuner}, and for benchmarks.
 *
 * <p>Owned by: the executor, before it serves.
 */
public final class StepTimer implements AutoCloseable {
    /** Kernels that differ between GEMM methods: cublasLt leaves SwiGLU to a row-wise kernel. */
    private static final Set<Part> LINEAR = EnumSet.of(Part.GEMM, Part.ROW_WISE);

    private static final int WARM_UPS = 2;
    /** Min rows that have logits. */
    static final int FEW_ROWS = 8;

    private static final int CHOICE_REPEATS = 3;
    /** Max tokens of context of the rows of a step by which methods are chosen. */
    private static final int CHOICE_CONTEXT = 1024;
    /** Runs longer than this are timed once. */
    private static final float LONG_MILLIS = 200;

    private final Stream stream;
    private final CudaForward forward;
    private final StepLayout layout;
    private final KvLayout kv;
    private final ModelShape shape;
    private final Event begin;
    private final Event end;

    /** @param kv the groups of layers */
    public StepTimer(
            Device device, Stream stream, CudaForward forward, StepLayout layout, KvLayout kv, ModelShape shape) {
        this(stream, forward, layout, kv, shape, device.event(), device.event());
    }

    private StepTimer(
            Stream stream,
            CudaForward forward,
            StepLayout layout,
            KvLayout kv,
            ModelShape shape,
            Event begin,
            Event end) {
        this.stream = stream;
        this.forward = forward;
        this.layout = layout;
        this.kv = kv;
        this.shape = shape;
        this.begin = begin;
        this.end = end;
    }

    /** A timer of another forward pass; it shares this timer's events, so only this one is closed. */
    public StepTimer of(CudaForward other) {
        return new StepTimer(stream, other, layout, kv, shape, begin, end);
    }

    /**
     * Runs a decode step of each size that is replayed from a graph, so that a faulty kernel fails at the start. All
     * kernels are loaded before: the project's own with their modules, cublasLt's by {@link GemmAutotuner#algorithms}.
     */
    public void runBuckets(StepBuffer inputs, int maxRows) {
        for (int bucket = 1; bucket <= maxRows; bucket = GraphCache.bucket(bucket + 1)) {
            inputs.clear();
            StepLayout.pad(inputs, 0, bucket);
            layout.spread(inputs, 0);
            inputs.upload(stream);
            forward.run(stream, inputs, Extent.decode(bucket, bucket));
            stream.synchronise();
        }
    }

    /** Milliseconds of the GEMMs and activations of a step of so many rows, few of which are sampled. */
    public double gemms(StepBuffer inputs, int rows) {
        return time(inputs, Extent.decode(rows, FEW_ROWS).only(LINEAR), CHOICE_REPEATS);
    }

    /**
     * Milliseconds of the attention of some tokens of a prompt, in all layers.
     *
     * @param before tokens of the prompt before these
     */
    double promptAttention(StepBuffer inputs, int before, int tokens, int gpuBlocks) {
        fillPrompt(inputs, before, tokens, gpuBlocks);
        Extent extent = Extent.of(tokens, 1).withTiles(inputs.tileCount());
        return time(inputs, extent.only(EnumSet.of(Part.ATTENTION)), CHOICE_REPEATS);
    }

    /**
     * Decode rows by which methods are chosen.
     *
     * @param rows of the step
     * @param decodes of them that have context; the others are empty
     * @param context tokens of each
     */
    record ChoiceRows(int rows, int decodes, int context) {
        /** Names what was measured. */
        String key() {
            return rows + "/" + decodes + "x" + context;
        }
    }

    /** As many decodes as a step has, each with as much context as there are KV blocks for, up to a limit. */
    ChoiceRows choiceRows(int rows, int maxDecodes, int gpuBlocks) {
        int decodes = Math.min(Math.min(rows, maxDecodes), gpuBlocks);
        int tokens = gpuBlocks / decodes * ModelShape.BLOCK_TOKENS;
        int context = Math.min(Math.min(CHOICE_CONTEXT, shape.config().contextTokens()), tokens);
        return new ChoiceRows(rows, decodes, context);
    }

    /** Writes the rows of a decode step. */
    void fill(StepBuffer inputs, ChoiceRows step, int gpuBlocks) {
        decodes(inputs, step.decodes(), step.context(), gpuBlocks);
        StepLayout.pad(inputs, step.decodes(), step.rows());
        layout.spread(inputs, 0);
        inputs.upload(stream);
    }

    /** A graph of a decode step of the rows that were written, for {@link #launched} to time in turns with others. */
    Graph decodes(StepBuffer inputs, int rows, int sampled) {
        return captured(inputs, Extent.decode(rows, sampled));
    }

    /** Milliseconds of one launch. */
    double launched(Graph graph) {
        return once(() -> stream.launch(graph), Thread::onSpinWait);
    }

    /** Milliseconds of gate, up and activation of some layers. */
    double gateUp(int rows) {
        int layers = Math.min(LayerGemms.MEASURED_LAYERS, shape.config().layers());
        return once(() -> forward.gateUp(stream, layers, rows), Thread::onSpinWait);
    }

    /** GPU milliseconds of a step, whole and by kind of kernel, each replayed from a graph of its own. */
    public record StepTime(int rows, int context, double whole, double gemms, double attention, double rowWise) {}

    /**
     * A decode step of rows that all have the same context.
     *
     * @param bucket rows of the graph that such a step is replayed from
     * @param context tokens of each row, the new one included
     * @param slots for in-flight tokens, all empty, among the bucket's rows
     */
    StepTime decode(StepBuffer inputs, int rows, int bucket, int context, int slots, int gpuBlocks, int repeats) {
        decodes(inputs, rows, context, gpuBlocks);
        StepLayout.pad(inputs, rows, bucket - slots);
        StepLayout.slots(inputs, bucket - slots, slots, bucket - slots, (sequence, token) -> token, List.of());
        layout.spread(inputs, slots);
        inputs.upload(stream);
        return times(rows, context, inputs, Extent.decode(bucket, bucket).withSlots(slots), repeats);
    }

    /** Likewise, with the last {@code piggybacked} tokens of a prompt of {@code context} tokens beside them. */
    StepTime piggybacked(
            StepBuffer inputs,
            int rows,
            int piggybacked,
            int bucket,
            int context,
            int slots,
            int gpuBlocks,
            int repeats) {
        int blocks = decodes(inputs, rows, context, gpuBlocks);
        for (int i = 0; i < piggybacked; i++) {
            inputs.row(rows + i, i, context - piggybacked + i);
        }
        StepBuffer.Table table = inputs.table(views(0, blocks, context - piggybacked), blocks);
        StepLayout.tiles(inputs, rows, piggybacked, context - piggybacked, table, shape.tileTokens());
        StepLayout.padRows(inputs, rows + piggybacked, bucket - slots);
        StepLayout.slots(inputs, bucket - slots, slots, rows, (sequence, token) -> token, List.of());
        layout.spread(inputs, slots);
        inputs.upload(stream);
        return times(
                rows + piggybacked,
                context,
                inputs,
                Extent.decode(bucket, rows + slots)
                        .withTiles(inputs.tileCount())
                        .withSlots(slots),
                repeats);
    }

    /** Writes decode rows, each with KV blocks of its own; returns the number of blocks per row. */
    private int decodes(StepBuffer inputs, int rows, int context, int gpuBlocks) {
        int blocks = (context - 1) / ModelShape.BLOCK_TOKENS + 1;
        if (rows > inputs.rowCapacity() || (long) rows * blocks > gpuBlocks) {
            throw new ConfigurationException(rows + " rows of " + context + " tokens need " + (long) rows * blocks
                    + " KV blocks of " + gpuBlocks + " and a step of " + inputs.rowCapacity()
                    + " rows; raise --max-num-seqs or lower --batch");
        }
        inputs.clear();
        for (int row = 0; row < rows; row++) {
            List<KvView> views = views(row * blocks, blocks, context - 1);
            inputs.row(row, row, context - 1, views);
            inputs.decode(context, inputs.table(views, blocks), shape.config().kvHeads(), shape.window());
            inputs.sample(row, row);
        }
        return blocks;
    }

    /**
     * What a sequence holds of blocks of all layers in each group.
     *
     * @param computed tokens before those of the step
     */
    private List<KvView> views(int first, int blocks, int computed) {
        List<KvView> whole = kv.views(IntStream.range(first, first + blocks).toArray());
        List<KvView> held = new ArrayList<>(whole.size());
        for (KvLayout.Kind kind : kv.kinds()) {
            int from = kind.window().start(computed) / ModelShape.BLOCK_TOKENS;
            for (KvView view : whole.subList(kind.first(), kind.end())) {
                held.add(new KvView(from, Arrays.copyOfRange(view.blocks(), from, blocks)));
            }
        }
        return held;
    }

    /** A step that prefills one prompt. */
    StepTime prefill(StepBuffer inputs, int tokens, int gpuBlocks, int repeats) {
        fillPrompt(inputs, 0, tokens, gpuBlocks);
        return times(tokens, tokens, inputs, Extent.of(tokens, 1).withTiles(inputs.tileCount()), repeats);
    }

    /** @param before tokens of the prompt that are computed, before those of the step */
    private void fillPrompt(StepBuffer inputs, int before, int tokens, int gpuBlocks) {
        int length = before + tokens;
        if (tokens > inputs.rowCapacity() || length > gpuBlocks * ModelShape.BLOCK_TOKENS) {
            throw new ConfigurationException("a prompt of " + length + " tokens does not fit into a step of "
                    + inputs.rowCapacity() + " rows and " + gpuBlocks + " KV blocks");
        }
        inputs.clear();
        int blocks = (length - 1) / ModelShape.BLOCK_TOKENS + 1;
        List<KvView> views = views(0, blocks, before);
        for (int i = 0; i < tokens; i++) {
            inputs.row(i, i % shape.config().vocabulary(), before + i, views);
        }
        StepLayout.tiles(inputs, 0, tokens, before, inputs.table(views, blocks), shape.tileTokens());
        inputs.sample(0, tokens - 1);
        inputs.upload(stream);
    }

    /** Milliseconds of all layers of a decode step without context, without logits. */
    double decodeLayers(StepBuffer inputs, int rows, int repeats) {
        return bare(inputs, rows, 0, repeats, Thread::onSpinWait);
    }

    /** Likewise, with logits and argmax of all rows. */
    double decodeWhole(StepBuffer inputs, int rows, int repeats) {
        return decodeWhole(inputs, rows, repeats, Thread::onSpinWait);
    }

    /** @param meanwhile runs repeatedly on the calling thread while the GPU computes */
    double decodeWhole(StepBuffer inputs, int rows, int repeats, Runnable meanwhile) {
        return bare(inputs, rows, rows, repeats, meanwhile);
    }

    private double bare(StepBuffer inputs, int rows, int sampled, int repeats, Runnable meanwhile) {
        inputs.clear();
        StepLayout.pad(inputs, 0, rows);
        layout.spread(inputs, 0);
        inputs.upload(stream);
        Extent extent = Extent.decode(rows, sampled);
        try (Graph graph = captured(inputs, extent)) {
            return time(repeats, () -> stream.launch(graph), meanwhile);
        }
    }

    /** Milliseconds of all layers' linear stages of a step with so many prompt tokens. */
    double promptLayers(StepBuffer inputs, int tokens, int gpuBlocks, int repeats) {
        fillPrompt(inputs, 0, tokens, gpuBlocks);
        return time(inputs, Extent.of(tokens, 0).only(LINEAR), repeats);
    }

    /**
     * A sub-batch whose step waits for host tokens.
     *
     * @param rows that store no KV
     * @param hostTokens more rows
     */
    record Waiting(StepBuffer inputs, int rows, List<HostToken> hostTokens) {}

    /**
     * The layers of a step that waits for host tokens, launched kernel by kernel as such steps are, in milliseconds.
     *
     * @param tasks gives each run the number of its first task
     */
    double hostTokens(List<Waiting> batches, LongSupplier tasks, int repeats) {
        int all = batches.stream().mapToInt(batch -> batch.hostTokens().size()).sum();
        return median(repeats, () -> {
            long first = tasks.getAsLong();
            int before = 0;
            List<Pass> passes = new ArrayList<>(batches.size());
            for (Waiting batch : batches) {
                StepBuffer input = batch.inputs();
                int count = batch.hostTokens().size();
                input.clear();
                StepLayout.pad(input, 0, batch.rows());
                for (int i = 0; i < count; i++) {
                    input.hostToken(batch.rows() + i, 0, 0, batch.hostTokens().get(i));
                }
                layout.spread(input, 0);
                input.hostTokens(batch.rows(), count, all, before, first);
                input.upload(stream);
                passes.add(
                        new Pass(input, Extent.decode(batch.rows() + count, 0).withHostTokens(count)));
                before += count;
            }
            return once(() -> forward.run(stream, passes), Thread::onSpinWait);
        });
    }

    /** Median milliseconds of what {@code work} enqueues; long work is timed once. */
    public double time(int repeats, Runnable work) {
        return time(repeats, work, Thread::onSpinWait);
    }

    private double time(int repeats, Runnable work, Runnable meanwhile) {
        return median(repeats, () -> once(work, meanwhile));
    }

    private static double median(int repeats, DoubleSupplier once) {
        double[] times = new double[repeats];
        int count = 0;
        for (int i = -WARM_UPS; i < repeats; i++) {
            count = Math.max(0, i);
            times[count] = once.getAsDouble();
            if (times[count] > LONG_MILLIS) {
                break; // long enough to be precise
            }
        }
        return median(Arrays.copyOf(times, count + 1));
    }

    /** The median, of an even number the upper; the values keep their order. */
    static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    private double once(Runnable work, Runnable meanwhile) {
        stream.record(begin);
        work.run();
        stream.record(end);
        while (!end.reached()) {
            meanwhile.run();
        }
        return end.millisecondsSince(begin);
    }

    /** Keeps the GPU at decode steps until it is closed. */
    final class Busy implements AutoCloseable {
        private final Graph graph;

        private Busy(StepBuffer inputs) {
            inputs.clear();
            StepLayout.pad(inputs, 0, 1);
            layout.spread(inputs, 0);
            inputs.upload(stream);
            graph = stream.capture(() -> forward.run(stream, inputs, Extent.decode(1, 1)));
            refill();
        }

        /** Enqueues another step when the last has ended. */
        void refill() {
            if (end.reached()) {
                stream.launch(graph);
                stream.record(end);
            }
        }

        @Override
        public void close() {
            Resources.closeAll(stream::synchronise, graph);
        }
    }

    /** Starts to keep the GPU busy. */
    Busy keepBusy(StepBuffer inputs) {
        return new Busy(inputs);
    }

    private StepTime times(int rows, int context, StepBuffer inputs, Extent extent, int repeats) {
        return new StepTime(
                rows,
                context,
                time(inputs, extent, repeats),
                time(inputs, extent.only(EnumSet.of(Part.GEMM)), repeats),
                time(inputs, extent.only(EnumSet.of(Part.ATTENTION)), repeats),
                time(inputs, extent.only(EnumSet.of(Part.ROW_WISE)), repeats));
    }

    /** The median of single replays, in milliseconds. */
    private double time(StepBuffer inputs, Extent extent, int repeats) {
        try (Graph graph = captured(inputs, extent)) {
            return time(repeats, () -> stream.launch(graph));
        }
    }

    /** Captures a step after running it once, so that cublasLt's algorithms are chosen and loaded. */
    private Graph captured(StepBuffer inputs, Extent extent) {
        forward.run(stream, inputs, extent);
        return stream.capture(() -> forward.run(stream, inputs, extent));
    }

    @Override
    public void close() {
        Resources.closeAll(begin, end);
    }
}
