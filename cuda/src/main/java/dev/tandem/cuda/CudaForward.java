package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.MatrixProducts;
import dev.tandem.cuda.kernels.MatrixProducts.Result;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeFrequencies;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * A decoder of the Llama family as a sequence of kernels: embed, then for each layer norm, q k v, rotation and KV store,
 * attention, output, norm, gate and up, down; then logits and the most probable tokens. Enqueues and returns.
 *
 * <p>Steps of at most {@link Kernels#SKINNY_ROWS} rows use the project's own products, whose partial sums the next row-wise
 * kernel adds up; larger ones cublasLt.
 *
 * <p>Owned by: engine thread.
 */
final class CudaForward implements AutoCloseable {
    /** Rows of a product are rounded up to this: fewer shapes to choose algorithms for. */
    private static final int ROW_STEP = 64;
    private static final int SKINNY_STRIP = 256;
    private static final int STREAM_STRIP = 128;
    /** Steps of 32 columns below which a split is not worth its partial sums. */
    private static final int LEAST_STEPS = 8;
    /** Blocks of decode attention a multiprocessor holds; decode.cu's launch bounds. */
    private static final int ATTENTION_WARPS = 12;

    private final Device device;
    private final Kernels kernels;
    private final MatrixProducts products;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final ModelConfig config;
    private final float epsilon;
    private final int attentionBlocks;
    private long blocks;
    private long layerBytes;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final DeviceBuffer frequencies;
    private final DeviceBuffer residual;
    private final DeviceBuffer normed;
    private final DeviceBuffer qkv;
    private final DeviceBuffer queries;
    private final DeviceBuffer attended;
    private final DeviceBuffer gateUp;
    private final DeviceBuffer activation;
    private final DeviceBuffer angles;
    private final DeviceBuffer partials;
    private final DeviceBuffer logits;
    private final DeviceBuffer partialOut;
    private final DeviceBuffer partialNorm;
    private final DeviceBuffer finished;
    private final DeviceBuffer argmaxParts;
    private final DeviceBuffer argmaxFinished;
    private final DeviceBuffer chosen;

    private final Map<XShape, TensorMap> xMaps = new HashMap<>();

    private record XShape(long address, int depth, int boxRows) {}

    /** A matrix that few rows are multiplied with; the map is null without copy engine. */
    private record Few(long matrix, TensorMap map) {}

    /** What one step enqueues. */
    record Extent(int rows, int sampled, boolean decodes, int tiles) {}

    /** @param items most items of decode attention in a step */
    CudaForward(
            Device device, Stream stream, Kernels kernels, MatrixProducts products, CudaWeights weights, ModelShape shape,
            int maxRows, int maxSampled, int items) {
        this.device = device;
        this.kernels = kernels;
        this.products = products;
        this.weights = weights;
        this.shape = shape;
        this.config = shape.config();
        this.epsilon = (float) config.normEpsilon();
        this.attentionBlocks = device.multiprocessors() * ATTENTION_WARPS / Kernels.decodeWarps(config.group(), shape.headWidth());
        int rows = roundUp(Math.max(maxRows, ROW_STEP));
        int sampled = roundUp(Math.max(maxSampled, ROW_STEP));
        long half = shape.type().bytes();
        frequencies = buffer(4L * config.headDim() / 2, "rotation frequencies");
        residual = buffer(4L * rows * shape.hidden(), "the residual stream");
        normed = buffer(half * rows * shape.hidden(), "normed rows");
        qkv = buffer(half * rows * shape.qkv(), "q, k and v");
        queries = buffer(half * rows * shape.queries(), "queries");
        attended = buffer(half * rows * shape.queries(), "attention results");
        gateUp = buffer(half * rows * 2L * shape.intermediate(), "gate and up");
        activation = buffer(half * rows * shape.intermediate(), "activations");
        angles = buffer(4L * rows * config.headDim(), "rotation angles");
        partials = buffer(4L * Kernels.SKINNY_ROWS * mostPartials(), "partial sums");
        logits = buffer(4L * sampled * shape.vocabulary(), "logits");
        long itemHeads = (long) items * config.heads();
        partialOut = buffer(4L * itemHeads * shape.headWidth(), "partial attention");
        partialNorm = buffer(8L * itemHeads, "partial attention sums");
        finished = buffer(4L * rows * config.kvHeads(), "attention counters");
        argmaxParts = buffer(8L * sampled * Kernels.ARGMAX_PARTS, "argmax parts");
        argmaxFinished = buffer(4L * sampled, "argmax counters");
        chosen = buffer(4L * sampled, "sampled tokens");
        // rows beyond a step's own are computed and never used, but must not be numbers that slow the GPU down
        buffers.forEach(buffer -> stream.fill(buffer, 0));
        float[] values = RopeFrequencies.of(config);
        try (PinnedBuffer staging = device.pinned(4L * values.length, "rotation frequencies")) {
            MemorySegment.copy(values, 0, staging.memory(), ValueLayout.JAVA_FLOAT, 0, values.length);
            stream.upload(frequencies, 0, staging.memory(), 4L * values.length);
            stream.synchronise();
        }
    }

    /**
     * Says where KV is; before the first {@link #run}.
     *
     * @param kv the GPU pool: [layers][blocks]
     */
    void pool(DeviceBuffer kv, int gpuBlocks) {
        blocks = kv.address();
        layerBytes = gpuBlocks * shape.blockBytes();
    }

    private static int roundUp(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    private DeviceBuffer buffer(long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    private long mostPartials() {
        long qkvWidth = (long) splits(shape.qkv(), shape.hidden()) * shape.qkv();
        long outputWidth = (long) splits(shape.hidden(), shape.queries()) * shape.hidden();
        long downWidth = (long) splits(shape.hidden(), shape.intermediate()) * shape.hidden();
        return Math.max(qkvWidth, Math.max(outputWidth, downWidth));
    }

    /** Bytes of activations. */
    long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum();
    }

    DeviceBuffer logits() {
        return logits;
    }

    DeviceBuffer chosen() {
        return chosen;
    }

    /** Weight rows of a block of a product of few rows. */
    private int strip() {
        return kernels.streams() ? STREAM_STRIP : SKINNY_STRIP;
    }

    /** Enough blocks to fill every multiprocessor, and no split shorter than is worth it. */
    private int splits(int n, int depth) {
        int strips = (n + strip() - 1) / strip();
        int slots = device.multiprocessors() * (kernels.streams() ? 2 : 1);
        return Math.max(1, Math.min(slots / strips, depth / 32 / LEAST_STEPS));
    }

    /** Chooses algorithms for steps of so many rows. */
    void measure(Stream stream, int rows) {
        int padded = roundUp(rows);
        CudaWeights.Layer layer = weights.layers.getFirst();
        products.measure(
                stream, layer.qkv(), shape.qkv(), shape.hidden(), normed.address(), padded, qkv.address(), Result.NARROW);
        products.measure(
                stream, layer.output(), shape.hidden(), shape.queries(), attended.address(), padded, residual.address(),
                Result.WIDE_ADDED);
        products.measure(
                stream, layer.gateUp(), 2 * shape.intermediate(), shape.hidden(), normed.address(), padded, gateUp.address(),
                Result.NARROW);
        products.measure(
                stream, layer.down(), shape.hidden(), shape.intermediate(), activation.address(), padded, residual.address(),
                Result.WIDE_ADDED);
    }

    /** Chooses the algorithm of the output head for so many sampled rows. */
    void measureHead(Stream stream, int sampled) {
        products.measure(
                stream, weights.head, shape.vocabulary(), shape.hidden(), normed.address(), roundUp(sampled), logits.address(),
                Result.WIDE);
    }

    /** Enqueues a step whose inputs are in {@code step}; the most probable tokens are then in {@link #chosen}. */
    void run(Stream stream, StepBuffer step, Extent extent) {
        boolean few = extent.rows() <= Kernels.SKINNY_ROWS;
        kernels.embed.launch(
                stream, extent.rows(), 1, step.tokens(), step.positions(), weights.embeddings, frequencies.address(),
                residual.address(), angles.address());
        int pending = 0;
        for (int i = 0; i < weights.layers.size(); i++) {
            CudaWeights.Layer layer = weights.layers.get(i);
            norm(stream, extent.rows(), pending, layer.inputNorm(), 0);
            project(stream, step, extent, i, blocks + i * layerBytes, few);
            attend(stream, step, extent, blocks + i * layerBytes);
            Few output = few(i, layer.output(), CudaWeights.Maps::output);
            pending = product(stream, output, shape.hidden(), shape.queries(), attended, extent.rows(), few);
            norm(stream, extent.rows(), pending, layer.attentionNorm(), 0);
            feedForward(stream, i, extent.rows(), few);
            Few down = few(i, layer.down(), CudaWeights.Maps::down);
            pending = product(stream, down, shape.hidden(), shape.intermediate(), activation, extent.rows(), few);
        }
        if (extent.sampled() > 0) {
            // the step's rows stay where they are: the norm of the sampled ones alone is taken
            kernels.addNorm.launch(
                    stream, extent.sampled(), 1, residual.address(), partials.address(), pending, extent.rows(), weights.norm,
                    step.samples(), normed.address(), epsilon);
            head(stream, extent.sampled());
            kernels.argmax.launch(
                    stream, extent.sampled(), Kernels.ARGMAX_PARTS, logits.address(), argmaxParts.address(),
                    argmaxFinished.address(), chosen.address());
        }
    }

    /** Replaces the tokens of the first {@code draws} draws of the step. */
    void sample(Stream stream, StepBuffer step, int draws) {
        kernels.sample.launch(stream, draws, 1, logits.address(), step.draws(), chosen.address());
    }

    private void norm(Stream stream, int rows, int splits, long weight, long rowMap) {
        kernels.addNorm.launch(
                stream, rows, 1, residual.address(), partials.address(), splits, rows, weight, rowMap, normed.address(), epsilon);
    }

    private void project(Stream stream, StepBuffer step, Extent extent, int index, long tiles, boolean few) {
        CudaWeights.Layer layer = weights.layers.get(index);
        int splits = 0;
        if (few) {
            Few product = few(index, layer.qkv(), CudaWeights.Maps::qkv);
            splits = few(stream, product, shape.qkv(), shape.hidden(), normed, extent.rows(), partials.address());
        } else {
            products.multiply(
                    stream, layer.qkv(), shape.qkv(), shape.hidden(), normed.address(), roundUp(extent.rows()), qkv.address(),
                    Result.NARROW);
        }
        int heads = config.heads() + 2 * config.kvHeads();
        kernels.ropeStore.launch(
                stream, extent.rows(), (heads + 3) / 4, partials.address(), splits, extent.rows(), qkv.address(), layer.qkvBias(),
                layer.queryNorm(), layer.keyNorm(), epsilon, angles.address(), step.slots(), queries.address(), tiles);
    }

    private Few few(int index, long matrix, Function<CudaWeights.Maps, TensorMap> map) {
        return new Few(matrix, kernels.streams() ? map.apply(weights.maps.get(index)) : null);
    }

    private void attend(Stream stream, StepBuffer step, Extent extent, long tiles) {
        if (extent.decodes()) {
            kernels.decodeAttention.launch(
                    stream, attentionBlocks, 1, queries.address(), tiles, step.tables(), step.items(), step.itemCountAddress(),
                    shape.scoreScale(), attended.address(), partialOut.address(), partialNorm.address(), finished.address());
        }
        if (extent.tiles() > 0) {
            kernels.prefillAttention.launch(
                    stream, extent.tiles(), config.kvHeads(), queries.address(), tiles, step.tables(), step.tiles(),
                    shape.scoreScale(), attended.address());
        }
    }

    /** Adds to the residual stream, or leaves partial sums for the next norm to add: their number is returned. */
    private int product(Stream stream, Few product, int n, int depth, DeviceBuffer x, int rows, boolean few) {
        if (few) {
            return few(stream, product, n, depth, x, rows, partials.address());
        }
        products.multiply(stream, product.matrix(), n, depth, x.address(), roundUp(rows), residual.address(), Result.WIDE_ADDED);
        return 0;
    }

    private int few(Stream stream, Few product, int n, int depth, DeviceBuffer x, int rows, long out) {
        int splits = splits(n, depth);
        int strips = (n + strip() - 1) / strip();
        if (kernels.streams()) {
            kernels.stream(rows).launch(stream, strips, splits, product.map(), xMap(x, depth, rows), out, rows, n, depth);
        } else {
            kernels.skinny(rows).launch(stream, strips, splits, product.matrix(), x.address(), out, rows, n, depth);
        }
        return splits;
    }

    private TensorMap xMap(DeviceBuffer x, int depth, int rows) {
        int boxRows = 8 * Kernels.tiles(rows);
        return xMaps.computeIfAbsent(
                new XShape(x.address(), depth, boxRows),
                key -> TensorMap.of(device, key.address(), boxRows, depth, boxRows, shape.type()));
    }

    private void feedForward(Stream stream, int index, int rows, boolean few) {
        int width = shape.intermediate();
        CudaWeights.Layer layer = weights.layers.get(index);
        if (few) {
            int strips = (2 * width + strip() - 1) / strip();
            if (kernels.streams()) {
                kernels.streamSwiglu(rows).launch(
                        stream, strips, 1, weights.maps.get(index).gateUp(), xMap(normed, shape.hidden(), rows),
                        activation.address(), rows, 2 * width, shape.hidden());
            } else {
                kernels.skinnySwiglu(rows).launch(
                        stream, strips, 1, layer.gateUp(), normed.address(), activation.address(), rows, 2 * width, shape.hidden());
            }
            return;
        }
        products.multiply(
                stream, layer.gateUp(), 2 * width, shape.hidden(), normed.address(), roundUp(rows), gateUp.address(), Result.NARROW);
        long threads = (long) rows * width / 8;
        kernels.swiglu.launch(stream, (int) ((threads + 255) / 256), 1, gateUp.address(), activation.address(), rows);
    }

    private void head(Stream stream, int sampled) {
        if (sampled <= Kernels.SKINNY_ROWS) {
            int strips = (shape.vocabulary() + strip() - 1) / strip();
            if (kernels.streams()) {
                kernels.stream(sampled).launch(
                        stream, strips, 1, weights.headMap.orElseThrow(), xMap(normed, shape.hidden(), sampled), logits.address(),
                        sampled, shape.vocabulary(), shape.hidden());
            } else {
                kernels.skinny(sampled).launch(
                        stream, strips, 1, weights.head, normed.address(), logits.address(), sampled, shape.vocabulary(),
                        shape.hidden());
            }
        } else {
            products.multiply(
                    stream, weights.head, shape.vocabulary(), shape.hidden(), normed.address(), roundUp(sampled), logits.address(),
                    Result.WIDE);
        }
    }

    /** Copies whole blocks of all layers; {@code pairs} holds (from, to). */
    void copyBlocks(Stream stream, long from, int fromBlocks, long to, int toBlocks, long pairs, int count) {
        long words = shape.blockBytes() / 16;
        kernels.copyBlocks.launch(stream, count, config.layers(), from, to, fromBlocks * words, toBlocks * words, pairs);
    }

    /** The blocks of decode attention that are resident at a time. */
    int attentionBlocks() {
        return attentionBlocks;
    }

    @Override
    public void close() {
        buffers.forEach(DeviceBuffer::close);
    }
}
