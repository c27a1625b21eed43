package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.forward.SlotLayers;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.kv.KvPools.Moving;
import java.util.List;
import java.util.Optional;

/**
 * Replays steps of few rows from CUDA graphs, one per bucket of row counts. Graphs of decode steps are captured at the
 * start. Graphs with slots or prompt tokens are captured when they are first needed, which takes some milliseconds
 * once. Decode steps with same-layer tokens, and steps of two small sub-batches, have a graph once their shape has
 * repeated.
 *
 * <p>Owned by: engine thread.
 */
public final class GraphCache implements AutoCloseable {
    /** Above the small buckets, row counts are rounded up to a multiple of this, as cublasLt's GEMMs are. */
    public static final int BUCKET_STEP = 64;

    private static final int[] SMALL_BUCKETS = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160};
    /** Tiles of prefill attention that a graph has room for beyond those of one long chunk. */
    private static final int MORE_TILES = 4;
    /**
     * Max graphs kept. One takes about half a MiB of GPU memory with 32 layers. The memory of the graph of a step with
     * two sub-batches was not measured.
     */
    private static final int MAX_STEPS = 256;

    private static final int MAX_SAME_LAYER_STEPS = 64;
    /**
     * Max rows of each of two sub-batches that are replayed: larger row counts seldom repeat. These are not padded,
     * because their samples lie side by side.
     */
    private static final int MAX_SAME_LAYER_ROWS = 16;
    /** Max shapes counted, and how often a shape has to occur before it gets a graph. */
    private static final int MAX_SHAPES = 1024;

    private static final int REPEATS = 3;

    /**
     * The shape that a graph is captured for. Steps are padded to its rows, samples and tiles.
     *
     * @param rows slots included
     * @param sampled likewise
     */
    record Key(int rows, int sampled, int tiles, int slots, Moving moving) {}

    /** The shape of a graph whose step waits for host tokens. */
    private record SameLayerKey(List<Extent> passes, Moving moving) {}

    /** How often a shape has occurred. */
    private static final class Count {
        int steps;
    }

    private final Stream stream;
    private final CudaForward forward;
    private final StepBuffer inputs;
    private final KvPools pools;
    private final ModelShape shape;
    private final Recent<Key, Graph> graphs;
    private final Recent<SameLayerKey, Graph> sameLayer;
    private final Recent<SameLayerKey, Count> shapes;
    private final GraphFallback fallback = new GraphFallback(
            text -> System.getLogger(GraphCache.class.getName()).log(System.Logger.Level.WARNING, text));

    /** @param inputs of all replayed steps */
    public GraphCache(Stream stream, CudaForward forward, StepBuffer inputs, KvPools pools, ModelShape shape) {
        this.stream = stream;
        this.forward = forward;
        this.inputs = inputs;
        this.pools = pools;
        this.shape = shape;
        this.graphs = new Recent<>(MAX_STEPS, stream::synchronise, Graph::close);
        this.sameLayer = new Recent<>(MAX_SAME_LAYER_STEPS, stream::synchronise, Graph::close);
        this.shapes = new Recent<>(MAX_SHAPES, () -> {}, count -> {});
    }

    public static int roundUp(int rows) {
        return rows <= Kernels.GEMV_MAX_ROWS
                ? Kernels.GEMV_MAX_ROWS
                : (rows + BUCKET_STEP - 1) / BUCKET_STEP * BUCKET_STEP;
    }

    /** The smallest row count with graphs that holds so many rows. */
    public static int bucket(int rows) {
        for (int bucket : SMALL_BUCKETS) {
            if (rows <= bucket) {
                return bucket;
            }
        }
        return roundUp(rows);
    }

    /**
     * The row count with graphs that holds so many rows, and that is not above a capacity.
     *
     * @param capacity at least {@code rows}
     */
    static int bucketWithin(int rows, int capacity) {
        return Math.min(bucket(rows), capacity);
    }

    /** Max tiles of a step of at most so many rows and sequences. */
    public static int maxTiles(int rows, int sequences, ModelShape shape) {
        return roundUp(rows / shape.tileTokens() + MORE_TILES + sequences);
    }

    /**
     * The graph's shape for the step whose swaps the pools hold; rows and samples exclude slots. Where slots are no
     * multiple of 64, the inputs have room for fewer rows than the bucket.
     */
    Key key(int rows, int sampled, int tiles, int slots) {
        int bucket = bucketWithin(rows + slots, inputs.rowCapacity());
        if (tiles == 0 && sampled == rows) {
            return new Key(bucket, bucket, 0, slots, pools.moving());
        }
        int samples = bucketWithin(sampled + slots, inputs.sampleCapacity());
        int usual = bucket / shape.tileTokens() + MORE_TILES;
        return new Key(
                Math.max(bucket, samples), samples, tiles <= usual ? usual : roundUp(tiles), slots, pools.moving());
    }

    /**
     * The shape of such a step that counts its slots by layer. Most of its layers have few slots, so its rows are
     * padded without them, and rows of slots follow. It has no more rows than with all slots, for which there is room.
     */
    Key keyAtLayers(int rows, int sampled, int tiles, int slots) {
        Key all = key(rows, sampled, tiles, slots);
        return new Key(
                Math.min(all.rows(), paddedBeside(rows, slots)),
                Math.min(all.sampled(), paddedBeside(sampled, slots)),
                all.tiles(),
                slots,
                all.moving());
    }

    /** Slots, and rows beside them that are padded to a bucket; no row without any. */
    static int paddedBeside(int rows, int slots) {
        return (rows == 0 ? 0 : bucket(rows)) + slots;
    }

    /** Launches a step as one graph, or kernel by kernel where the driver makes no graph. */
    public void launch(Key key) {
        graph(key).ifPresentOrElse(stream::launch, () -> run(List.of(new Pass(inputs, extent(key)))));
    }

    /** Launches a step kernel by kernel that counts its slots by layer. */
    void launchAtLayers(Key key, SlotLayers layers) {
        run(List.of(new Pass(inputs, extent(key), layers)));
    }

    /**
     * Launches a step of any rows, which may include same-layer tokens: kernel by kernel, unless it has few rows and
     * its shape has repeated.
     *
     * @param padded whether the step has one batch, padded to a bucket of rows
     */
    public void launch(List<Pass> passes, boolean padded) {
        if (padded || passes.stream().allMatch(GraphCache::mayRepeat)) {
            SameLayerKey key = new SameLayerKey(
                    passes.stream().map(pass -> pass.extent().graphShape()).toList(), pools.moving());
            if (++shapes.get(key, any -> new Count()).steps >= REPEATS) {
                Optional<Graph> graph =
                        fallback.find(sameLayer, key, wanted -> stream.capture(() -> run(graphShapes(passes))));
                if (graph.isPresent()) {
                    stream.launch(graph.get());
                    return;
                }
            }
        }
        run(passes);
    }

    private static boolean mayRepeat(Pass pass) {
        Extent extent = pass.extent();
        return pass.scored().count() == 0
                && extent.rows() <= MAX_SAME_LAYER_ROWS
                && extent.tiles() == 0
                && extent.slots() == 0
                && extent.resumed() == 0;
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

    /** Captures the graphs of all decode steps without slots. */
    public void capture(int maxRows) {
        for (int bucket = 1; bucket <= maxRows; bucket = bucket(bucket + 1)) {
            graph(new Key(bucket, bucket, 0, 0, Moving.NOTHING));
        }
    }

    /** The graph of a key, captured from the current step's moves when there is none. */
    private Optional<Graph> graph(Key wanted) {
        return fallback.find(graphs, wanted, key -> stream.capture(() -> run(List.of(new Pass(inputs, extent(key))))));
    }

    @Override
    public void close() {
        Resources.closeAll(graphs::clear, sameLayer::clear);
    }
}
