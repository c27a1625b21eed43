package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.MatrixProducts;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeFrequencies;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;

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

    /** Flags of decode.cu. */
    private static final int CARRIES = 1;
    private static final int LAST_LAYER = 2;

    private final Device device;
    private final Kernels kernels;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final ModelConfig config;
    private final float epsilon;
    private final int attentionBlocks;
    private KvPools pools;
    private long blocks;
    private long layerBytes;
    private int gpuBlocks;
    private long flights;
    private final Stream link;
    private final Event left;
    private final Event carried;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final Linear linear;
    private final DeviceBuffer frequencies;
    private final DeviceBuffer residual;
    private final DeviceBuffer normed;
    private final DeviceBuffer qkv;
    private final DeviceBuffer queries;
    private final DeviceBuffer attended;
    private final DeviceBuffer gateUp;
    private final DeviceBuffer activation;
    private final DeviceBuffer angles;
    private final DeviceBuffer logits;
    private final DeviceBuffer partialOut;
    private final DeviceBuffer partialNorm;
    private final DeviceBuffer finished;
    private final DeviceBuffer argmaxParts;
    private final DeviceBuffer argmaxFinished;
    private final DeviceBuffer chosen;

    /** Kinds of kernels, so that their time can be measured apart. */
    enum Part {
        /** Matrix products, the output head included. */
        PRODUCTS,
        ATTENTION,
        /** Norms, rotation, activation, embedding, choice of tokens. */
        ROW_WISE
    }

    /**
     * What one step enqueues; all parts unless time is measured.
     *
     * @param rows slots for rows in flight, which are the last, included
     * @param sampled likewise
     */
    record Extent(int rows, int sampled, boolean decodes, int tiles, int slots, Set<Part> parts) {
        Extent(int rows, int sampled, boolean decodes, int tiles, int slots) {
            this(rows, sampled, decodes, tiles, slots, EnumSet.allOf(Part.class));
        }

        Extent only(Set<Part> some) {
            return new Extent(rows, sampled, decodes, tiles, slots, some);
        }

        /** No row comes after it without slots. */
        int firstSlot() {
            return slots == 0 ? Integer.MAX_VALUE : rows - slots;
        }

        boolean has(Part part) {
            return parts.contains(part);
        }
    }

    CudaForward(
            Device device, Stream stream, Kernels kernels, MatrixProducts products, CudaWeights weights, ModelShape shape,
            int maxRows, int maxSampled) {
        this.device = device;
        this.kernels = kernels;
        this.weights = weights;
        this.shape = shape;
        this.config = shape.config();
        this.epsilon = (float) config.normEpsilon();
        this.attentionBlocks = device.multiprocessors() * kernels.decodeAttention.residentBlocks();
        this.link = device.stream("rows in flight");
        this.left = device.event();
        this.carried = device.event();
        int rows = Linear.roundUp(Math.max(maxRows, Linear.ROW_STEP));
        int sampled = Linear.roundUp(Math.max(maxSampled, Linear.ROW_STEP));
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
        logits = buffer(4L * sampled * shape.vocabulary(), "logits");
        long parts = 2L * attentionBlocks * config.group();
        partialOut = buffer(4L * parts * shape.headWidth(), "partial attention");
        partialNorm = buffer(8L * parts, "partial attention sums");
        finished = buffer(4L * rows * config.kvHeads(), "attention counters");
        argmaxParts = buffer(8L * sampled * Kernels.ARGMAX_PARTS, "argmax parts");
        argmaxFinished = buffer(4L * sampled, "argmax counters");
        chosen = buffer(4L * sampled, "sampled tokens");
        linear = new Linear(
                device, kernels, products, weights, shape,
                new Linear.Buffers(normed, qkv, attended, gateUp, activation, residual, logits));
        // rows beyond a step's own are computed and never used, but must not be numbers that slow the GPU down
        buffers.forEach(buffer -> stream.fill(buffer, 0));
        float[] values = RopeFrequencies.of(config);
        try (PinnedBuffer staging = device.pinned(4L * values.length, "rotation frequencies")) {
            MemorySegment.copy(values, 0, staging.memory(), ValueLayout.JAVA_FLOAT, 0, values.length);
            stream.upload(frequencies, 0, staging.memory(), 4L * values.length);
            stream.synchronise();
        }
    }

    /** Says where KV is; before the first {@link #run}. */
    void pools(KvPools kv, int gpuBlocks) {
        this.pools = kv;
        this.gpuBlocks = gpuBlocks;
        blocks = kv.gpu().address();
        layerBytes = gpuBlocks * shape.blockBytes();
    }

    /** Says where rows in flight are; before the first step with slots. */
    void flights(FlightDeck deck) {
        flights = deck.address();
    }

    private DeviceBuffer buffer(long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    /** Bytes of activations. */
    long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum() + linear.bytes();
    }

    DeviceBuffer logits() {
        return logits;
    }

    /** The products, to choose algorithms. */
    Linear linear() {
        return linear;
    }

    /** Enqueues a step whose inputs are in {@code step}; the most probable tokens are then in {@link #chosen}. */
    void run(Stream stream, StepBuffer step, Extent extent) {
        if (extent.has(Part.ROW_WISE)) {
            kernels.embed.launch(
                    stream, extent.rows(), 1, step.tokens(), step.positions(), weights.embeddings, frequencies.address(),
                    residual.address(), angles.address(), extent.firstSlot(), flights, step.admitted(), step.admittedDraws());
        }
        // own products leave room for a block beside them, cublasLt's may want whole multiprocessors
        boolean courier = extent.slots() > 0 && extent.has(Part.ATTENTION) && !linear.finishes(extent.rows());
        if (courier) {
            stream.record(left);
            link.waitFor(left);
            kernels.courier.launch(link, 1, 1, flights);
            link.record(carried);
        }
        int pending = 0;
        for (int i = 0; i < weights.layers.size(); i++) {
            CudaWeights.Layer layer = weights.layers.get(i);
            norm(stream, extent, pending, layer.inputNorm(), i);
            int splits = extent.has(Part.PRODUCTS) ? linear.qkv(stream, i, extent.rows()) : 0;
            pools.beforeStore(stream, i);
            rotate(stream, step, extent, i, splits);
            pools.afterStore(stream, i);
            attend(stream, step, extent, i, !courier);
            pending = extent.has(Part.PRODUCTS) ? linear.output(stream, i, extent.rows()) : 0;
            norm(stream, extent, pending, layer.attentionNorm(), i + 1);
            pending = feedForward(stream, extent, i);
        }
        if (extent.sampled() > 0) {
            choose(stream, step, extent, pending);
        }
        if (courier) {
            stream.waitFor(carried);
        }
    }

    /** What the step tells the host, after {@link #sample}: {@code out} holds tokens, then flights that landed; with slots {@code stamps} when layers were. */
    void report(Stream stream, int sampled, int slots, long out, long stamps) {
        kernels.report.launch(stream, 1, 1, chosen.address(), sampled, flights, config.layers(), slots, out, stamps);
    }

    private void choose(Stream stream, StepBuffer step, Extent extent, int pending) {
        if (extent.has(Part.ROW_WISE)) {
            // the step's rows stay where they are: the norm of the sampled ones alone is taken
            kernels.addNorm.launch(
                    stream, extent.sampled(), 1, residual.address(), linear.partials(), pending, extent.rows(), weights.norm,
                    step.samples(), normed.address(), epsilon, extent.firstSlot(), flights, config.layers());
        }
        if (extent.has(Part.PRODUCTS)) {
            linear.head(stream, extent.sampled());
        }
        if (extent.has(Part.ROW_WISE)) {
            kernels.argmax.launch(
                    stream, extent.sampled(), Kernels.ARGMAX_PARTS, logits.address(), argmaxParts.address(),
                    argmaxFinished.address(), chosen.address());
        }
    }

    private int feedForward(Stream stream, Extent extent, int layer) {
        int rows = extent.rows();
        if (extent.has(Part.PRODUCTS)) {
            linear.gateUp(stream, layer, rows);
        }
        if (extent.has(Part.ROW_WISE) && linear.finishes(rows)) {
            long threads = (long) rows * shape.intermediate() / 8;
            kernels.swiglu.launch(stream, (int) ((threads + 255) / 256), 1, gateUp.address(), activation.address(), rows);
        }
        return extent.has(Part.PRODUCTS) ? linear.down(stream, layer, rows) : 0;
    }

    /**
     * Replaces the tokens of the first {@code draws} draws of the step, and those of rows in flight that are drawn.
     *
     * @param slots 0 when none is
     */
    void sample(Stream stream, StepBuffer step, int draws, int slots, int sampled) {
        kernels.sample.launch(
                stream, draws + slots, 1, logits.address(), step.draws(), chosen.address(), draws, sampled - slots, flights,
                config.layers());
    }

    /** @param mapLayer who sits in the slots: those who boarded at the layer before it */
    private void norm(Stream stream, Extent extent, int splits, long weight, int mapLayer) {
        if (extent.has(Part.ROW_WISE)) {
            kernels.addNorm.launch(
                    stream, extent.rows(), 1, residual.address(), linear.partials(), splits, extent.rows(), weight, 0L,
                    normed.address(), epsilon, extent.firstSlot(), flights, mapLayer);
        }
    }

    /** Bias, rotation, and the step's K and V into their blocks. */
    private void rotate(Stream stream, StepBuffer step, Extent extent, int index, int splits) {
        if (!extent.has(Part.ROW_WISE)) {
            return;
        }
        CudaWeights.Layer layer = weights.layers.get(index);
        int heads = config.heads() + 2 * config.kvHeads();
        kernels.ropeStore.launch(
                stream, extent.rows() + (extent.slots() > 0 ? 1 : 0), (heads + 3) / 4, linear.partials(), splits, extent.rows(), qkv.address(), layer.qkvBias(),
                layer.queryNorm(), layer.keyNorm(), epsilon, angles.address(), step.slots(), queries.address(),
                blocks + index * layerBytes, gpuBlocks, pools.stagingShift(index), extent.firstSlot(), flights, index,
                extent.slots() > 0 ? extent.rows() : Integer.MAX_VALUE);
    }

    /** @param carries whether a block carries rows in flight over the link, where no courier does */
    private void attend(Stream stream, StepBuffer step, Extent extent, int layer, boolean carries) {
        if (!extent.has(Part.ATTENTION)) {
            return;
        }
        long tiles = blocks + layer * layerBytes;
        if (extent.decodes() || extent.slots() > 0) {
            int serving = extent.slots() > 0 && carries ? extent.slots() + 1 : extent.slots();
            int place = (carries ? CARRIES : 0) | (layer == config.layers() - 1 ? LAST_LAYER : 0);
            kernels.decodeAttention.launch(
                    stream, StepLayout.stretches(attentionBlocks, extent.slots()) + serving, 1, queries.address(), tiles, step.tables(), step.sequences(), step.header(),
                    shape.scoreScale(), attended.address(), partialOut.address(), partialNorm.address(), finished.address(),
                    serving, extent.firstSlot(), flights, layer, place);
        }
        if (extent.tiles() > 0) {
            kernels.prefillAttention.launch(
                    stream, extent.tiles(), config.kvHeads(), queries.address(), tiles, step.tables(), step.tiles(),
                    shape.scoreScale(), attended.address(), gpuBlocks, pools.stagingShift(layer));
        }
    }

    /** The blocks of decode attention that are resident at a time. */
    int attentionBlocks() {
        return attentionBlocks;
    }

    @Override
    public void close() {
        linear.close();
        link.close();
        left.close();
        carried.close();
        buffers.forEach(DeviceBuffer::close);
    }
}
