package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools.Moving;
import dev.tandem.cuda.kv.KvPools;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Steps of few rows as CUDA graphs: one for each bucket of row counts. Those of decode steps are captured at the start,
 * those with slots or prompt tokens when they are first needed: some milliseconds, once. Steps in which prompts land
 * have one for each layer but the last; steps of few rows that wait for some of them have one when their shape has come
 * up before.
 *
 * <p>Owned by: engine thread.
 */
public final class GraphCache implements AutoCloseable {
    /** Above the small buckets rows are rounded up to this, as cublasLt's products are anyway. */
    public static final int BUCKET_STEP = 64;

    private static final int[] SMALL_BUCKETS = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160};
    /** Tiles of prompts in a graph's step beyond those of one long chunk. */
    private static final int MORE_TILES = 4;
    /**
     * Graphs that are kept. One takes about half a MiB of GPU memory with 32 layers; what those of a landing step take
     * together, or one of two sub-batches, was not measured.
     */
    private static final int MAX_STEPS = 256;

    private static final int MAX_PREFILL_OFFLOAD_STEPS = 64;
    private static final int MAX_WAITING_STEPS = 64;
    /**
     * Rows of a sub-batch: where there are more, numbers of rows seldom repeat. They are not filled up, for the samples
     * of two sub-batches lie side by side.
     */
    private static final int MAX_WAITING_ROWS = 16;
    /** Shapes that are counted, and how often one has come up that gets a graph. */
    private static final int MAX_SHAPES = 1024;

    private static final int REPEATS = 3;

    /**
     * What a graph is made for. Rows, samples and tiles that a step lacks are filled up.
     *
     * @param rows slots included
     * @param sampled likewise
     */
    record Key(int rows, int sampled, int tiles, int slots, Moving moving) {}

    /** Likewise for a step that waits for host tokens. */
    private record Waiting(List<Extent> passes, Moving moving) {}

    /** How often a shape has come up. */
    private static final class Count {
        int steps;
    }

    private final Stream stream;
    private final CudaForward forward;
    private final StepBuffer inputs;
    private final KvPools pools;
    private final ModelShape shape;
    private final Recent<Key, Graph> graphs;
    /** All layers but the last, of steps in which prompts land. */
    private final Recent<Key, List<Graph>> layers;

    private final Recent<Waiting, Graph> waiting;
    private final Recent<Waiting, Count> shapes;
    private final GraphFallback fallback = new GraphFallback(
            text -> System.getLogger(GraphCache.class.getName()).log(System.Logger.Level.WARNING, text));

    /** @param inputs of every step that is replayed */
    public GraphCache(Stream stream, CudaForward forward, StepBuffer inputs, KvPools pools, ModelShape shape) {
        this.stream = stream;
        this.forward = forward;
        this.inputs = inputs;
        this.pools = pools;
        this.shape = shape;
        this.graphs = new Recent<>(MAX_STEPS, stream::synchronise, Graph::close);
        this.layers = new Recent<>(MAX_PREFILL_OFFLOAD_STEPS, stream::synchronise, Resources::closeAll);
        this.waiting = new Recent<>(MAX_WAITING_STEPS, stream::synchronise, Graph::close);
        this.shapes = new Recent<>(MAX_SHAPES, () -> {}, count -> {});
    }

    public static int roundUp(int rows) {
        return rows <= Kernels.GEMV_MAX_ROWS
                ? Kernels.GEMV_MAX_ROWS
                : (rows + BUCKET_STEP - 1) / BUCKET_STEP * BUCKET_STEP;
    }

    /** The least number of rows that graphs exist for. */
    public static int bucket(int rows) {
        for (int bucket : SMALL_BUCKETS) {
            if (rows <= bucket) {
                return bucket;
            }
        }
        return roundUp(rows);
    }

    /** Most tiles of a step of at most so many rows and sequences. */
    public static int maxTiles(int rows, int sequences, ModelShape shape) {
        return roundUp(rows / shape.tileTokens() + MORE_TILES + sequences);
    }

    /** A graph's shape for the step whose moves the pools know; rows and samples without slots. */
    Key key(int rows, int sampled, int tiles, int slots) {
        int bucket = bucket(rows + slots);
        if (tiles == 0 && sampled == rows) {
            return new Key(bucket, bucket, 0, slots, pools.moving());
        }
        int samples = bucket(sampled + slots);
        int usual = bucket / shape.tileTokens() + MORE_TILES;
        return new Key(
                Math.max(bucket, samples), samples, tiles <= usual ? usual : roundUp(tiles), slots, pools.moving());
    }

    public void launch(Key key) {
        graph(key).ifPresentOrElse(stream::launch, () -> run(List.of(new Pass(inputs, extent(key)))));
    }

    /**
     * A step in which prompts land: what the copy engine carries between the layers is not known when graphs are made.
     * The last layer and what comes before the first are enqueued kernel by kernel.
     */
    void launchPrefillOffload(Key key) {
        List<Pass> passes = List.of(new Pass(inputs, extent(key)));
        Optional<List<Graph>> graphs = fallback.find(
                layers,
                new Key(key.rows(), key.sampled(), key.tiles(), key.slots(), Moving.NOTHING),
                this::captureLayers);
        if (graphs.isEmpty()) {
            run(passes);
            return;
        }
        List<Graph> middle = graphs.get();
        pools.begin(stream);
        boolean transfer = forward.begin(stream, passes);
        forward.projectFirst(stream, passes.getFirst());
        for (int layer = 0; layer < middle.size(); layer++) {
            pools.between(stream, layer);
            stream.launch(middle.get(layer));
        }
        pools.between(stream, middle.size());
        forward.lastLayer(stream, passes.getFirst(), transfer);
        forward.end(stream, passes, transfer);
        pools.end(stream);
    }

    private List<Graph> captureLayers(Key key) {
        Pass pass = new Pass(inputs, extent(key));
        boolean transfer = forward.launchesTransfer(pass.extent());
        List<Graph> captured = new ArrayList<>();
        try {
            for (int i = 0; i + 1 < shape.config().layers(); i++) {
                int layer = i;
                captured.add(stream.capture(() -> forward.layer(stream, pass, layer, transfer)));
            }
        } catch (RuntimeException | Error e) {
            Resources.closeAll(captured);
            throw e;
        }
        return captured;
    }

    /**
     * A step of whatever rows, some of which it may wait for: kernel by kernel, unless it has few and as many as others
     * had.
     */
    public void launch(List<Pass> passes) {
        if (passes.stream().allMatch(pass -> mayRepeat(pass.extent()))) {
            Waiting shape = new Waiting(
                    passes.stream().map(pass -> pass.extent().graphShape()).toList(), pools.moving());
            if (++shapes.get(shape, any -> new Count()).steps >= REPEATS) {
                Optional<Graph> graph =
                        fallback.find(waiting, shape, wanted -> stream.capture(() -> run(graphShapes(passes))));
                if (graph.isPresent()) {
                    stream.launch(graph.get());
                    return;
                }
            }
        }
        run(passes);
    }

    private static boolean mayRepeat(Extent extent) {
        return extent.rows() <= MAX_WAITING_ROWS
                && extent.tiles() == 0
                && extent.slots() == 0
                && !extent.sendsHostTokens();
    }

    private static List<Pass> graphShapes(List<Pass> passes) {
        return passes.stream()
                .map(pass -> new Pass(pass.step(), pass.extent().graphShape()))
                .toList();
    }

    private void run(List<Pass> passes) {
        pools.begin(stream);
        forward.run(stream, passes);
        pools.end(stream);
    }

    private static Extent extent(Key key) {
        return Extent.decode(key.rows(), key.sampled()).withTiles(key.tiles()).withSlots(key.slots());
    }

    /** Graphs of all decode steps without slots. */
    public void capture(int maxRows) {
        for (int bucket = 1; bucket <= maxRows; bucket = bucket(bucket + 1)) {
            graph(new Key(bucket, bucket, 0, 0, Moving.NOTHING));
        }
    }

    /** Made, when there is none, of what the step at hand moves. */
    private Optional<Graph> graph(Key wanted) {
        return fallback.find(graphs, wanted, key -> stream.capture(() -> run(List.of(new Pass(inputs, extent(key))))));
    }

    @Override
    public void close() {
        Resources.closeAll(graphs::clear, layers::clear, waiting::clear);
    }
}
