package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.CublasLtGemm;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.model.config.ModelConfig;
import dev.tandem.model.config.RopeFrequencies;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * A decoder of the Llama family as a sequence of kernels: embed, then for each layer norm, q k v, rotation and KV
 * store, attention, output, norm, gate and up, down; then logits and the most probable tokens. Enqueues and returns.
 *
 * <p>Small steps use the project's own products, whose partial sums the next row-wise kernel adds up; larger ones
 * cublasLt ({@link GemmPlan}).
 *
 * <p>Owned by: engine thread.
 */
final class CudaForward implements AutoCloseable {

    /** Flags of decode.cu. */
    private static final int CARRIES = 1;

    private static final int LAST_LAYER = 2;
    static final int BESIDE = 4;
    /** Likewise: of a part of attention that has not been left yet. */
    static final int NOT_THERE = -1;
    /** prefill.cu. */
    private static final int PART_THREADS = 256;
    /**
     * Thread blocks a multiprocessor that wait for host tokens: a quarter of what it holds, so that those that send
     * them fit.
     */
    private static final int COLLECTORS = 4;
    /**
     * Host tokens of a sub-batch that the rotation itself writes over the link: 24 KB each of a model with 32 heads.
     */
    private static final int SENT_BY_ROTATION = 8;

    private final Device device;
    private final Kernels kernels;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final ModelConfig config;
    private final float epsilon;
    private final SmPartition shares;
    private KvPools pools;
    private long blocks;
    private long layerBytes;
    private int gpuBlocks;
    private long hostTokens;
    private final Stream link;
    private final Event left;
    private final Event carried;
    private final List<DeviceBuffer> buffers = new ArrayList<>();
    private final GemmPlan linear;
    private final DeviceBuffer frequencies;
    private final Activations first;
    private final Optional<Activations> second;
    private final GpuSampler choice;
    private final DeviceBuffer partialOut;
    private final DeviceBuffer partialNorm;
    private final int multiprocessors;
    private final DeviceBuffer prefillParts;
    private final DeviceBuffer prefillFinished;

    /** Kinds of kernels, so that their time can be measured apart. */
    enum Part {
        /** Matrix products, the output head included. */
        GEMM,
        ATTENTION,
        /** Norms, rotation, activation, embedding, choice of tokens. */
        ROW_WISE
    }

    /**
     * What one step enqueues; all parts unless time is measured.
     *
     * @param rows slots for in-flight tokens, which are the last, included
     * @param sampled likewise
     * @param hostTokens rows that the CPU attends to while the step waits, before the slots
     */
    record Extent(int rows, int sampled, boolean decodes, int tiles, int slots, int hostTokens, Set<Part> parts) {
        Extent(int rows, int sampled, boolean decodes, int tiles, int slots) {
            this(rows, sampled, decodes, tiles, slots, 0);
        }

        Extent(int rows, int sampled, boolean decodes, int tiles, int slots, int hostTokens) {
            this(rows, sampled, decodes, tiles, slots, hostTokens, EnumSet.allOf(Part.class));
        }

        Extent only(Set<Part> some) {
            return new Extent(rows, sampled, decodes, tiles, slots, hostTokens, some);
        }

        /**
         * What kernels do not read from the step's inputs: they do that of how many host tokens there are, while these
         * are few.
         */
        Extent alike() {
            return new Extent(
                    rows,
                    sampled,
                    decodes,
                    tiles,
                    slots,
                    hostTokens == 0 ? 0 : Math.max(hostTokens, SENT_BY_ROTATION),
                    parts);
        }

        Extent sampledOnly() {
            return new Extent(sampled, sampled, decodes, tiles, slots, hostTokens, parts);
        }

        /** No row comes after it without slots. */
        int firstSlot() {
            return slots == 0 ? Integer.MAX_VALUE : rows - slots;
        }

        boolean has(Part part) {
            return parts.contains(part);
        }
    }

    /**
     * @param maxRows of a step's first sub-batch
     * @param secondRows of its second, 0 where steps have one
     * @param maxSampled of both
     */
    CudaForward(
            Device device,
            Stream stream,
            Kernels kernels,
            CublasLtGemm gemms,
            CudaWeights weights,
            ModelShape shape,
            int maxRows,
            int secondRows,
            int maxSampled) {
        this.device = device;
        this.kernels = kernels;
        this.weights = weights;
        this.shape = shape;
        this.config = shape.config();
        this.epsilon = (float) config.normEpsilon();
        this.shares = SmPartition.of(
                shape,
                device.multiprocessors(),
                kernels.decodeAttention.residentBlocks(),
                kernels.promptsLeaveRoom(),
                device.bandwidth());
        this.link = device.stream("in-flight tokens");
        this.left = device.event();
        this.carried = device.event();
        int sampled = GemmPlan.roundUp(Math.max(maxSampled, GemmPlan.ROW_STEP));
        first = Activations.of(device, shape, maxRows, "");
        second = secondRows > 0
                ? Optional.of(Activations.of(device, shape, secondRows, " of the second sub-batch"))
                : Optional.empty();
        frequencies = buffer(4L * config.headDim() / 2, "rotation frequencies");
        choice = new GpuSampler(device, stream, kernels, shape, sampled);
        long quads = (long) shares.attentionBlocks() * config.group() * shape.headWidth() / 4;
        partialOut = buffer(16 * quads, "partial attention");
        partialNorm = buffer(8 * quads, "partial attention sums");
        multiprocessors = device.multiprocessors();
        prefillParts = buffer(
                4L * SmPartition.MAX_PARTS * PART_THREADS * (shape.headWidth() / 2 + 4),
                "partial attention of prompts");
        prefillFinished = buffer(4L * SmPartition.MAX_PARTS, "counters of prompts' attention");
        linear = new GemmPlan(device, kernels, gemms, weights, shape, choice.logits());
        first.clear(stream);
        second.ifPresent(activations -> activations.clear(stream));
        buffers.forEach(buffer -> stream.fill(buffer, 0));
        stream.fill(partialOut, NOT_THERE);
        stream.fill(partialNorm, NOT_THERE);
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

    /** Says where in-flight tokens are; before the first step with slots. */
    void hostTokens(HostLinkMemory linkMemory) {
        hostTokens = linkMemory.address();
        choice.hostTokens(hostTokens);
    }

    private DeviceBuffer buffer(long bytes, String label) {
        DeviceBuffer buffer = device.allocate((bytes + 255) / 256 * 256, label);
        buffers.add(buffer);
        return buffer;
    }

    /** Bytes of activations. */
    long bytes() {
        return buffers.stream().mapToLong(DeviceBuffer::bytes).sum()
                + linear.bytes()
                + choice.bytes()
                + first.bytes()
                + second.map(Activations::bytes).orElse(0L);
    }

    /** What follows the layers. */
    GpuSampler choice() {
        return choice;
    }

    /** The products, to choose algorithms. */
    GemmPlan linear() {
        return linear;
    }

    /** The activations of steps of one batch, to choose algorithms. */
    Activations activations() {
        return first;
    }

    /** A sub-batch on its way through the layers. */
    record Pass(StepBuffer step, Extent extent) {}

    /**
     * Enqueues a step of one batch whose inputs are in {@code step}; the most probable tokens are then
     * {@link GpuSampler#chosen}.
     */
    void run(Stream stream, StepBuffer step, Extent extent) {
        run(stream, List.of(new Pass(step, extent)));
    }

    /**
     * Enqueues a step of one or two sub-batches, which take turns layer by layer (NEO, Figure 5): while the CPU attends
     * to one's host tokens, the GPU computes post-projection and next pre-projection of the other. Slots are in the
     * last; whatever moves KV, in the first. Sampled rows come in the order of the sub-batches.
     */
    void run(Stream stream, List<Pass> passes) {
        boolean transfer = begin(stream, passes);
        for (int p = 0; p < passes.size(); p++) {
            project(stream, passes.get(p), p, 0, 0);
            between(stream, p, 0);
            store(stream, passes.get(p), p, 0);
        }
        for (int layer = 0; layer < config.layers(); layer++) {
            int sampled = 0;
            for (int p = 0; p < passes.size(); p++) {
                Pass pass = passes.get(p);
                attention(stream, pass, p, layer, !transfer);
                if (layer + 1 < config.layers()) {
                    project(stream, pass, p, layer + 1, postProjection(stream, activations(p), pass.extent(), layer));
                    between(stream, p, layer + 1);
                    store(stream, pass, p, layer + 1);
                } else {
                    between(stream, p, config.layers());
                    finish(stream, pass, p, sampled);
                    sampled += pass.extent().sampled();
                }
            }
        }
        logits(stream, passes);
        end(stream, passes, transfer);
    }

    /**
     * Enqueues what comes before the first layer.
     *
     * @return whether a transfer kernel is under way, for which {@link #end} waits
     */
    boolean begin(Stream stream, List<Pass> passes) {
        for (int p = 0; p < passes.size(); p++) {
            embed(stream, passes.get(p), p);
        }
        boolean transfer =
                passes.size() == 1 && launchesTransfer(passes.getFirst().extent());
        if (transfer) {
            stream.record(left);
            link.waitFor(left);
            kernels.transfer.launch(link, 1, 1, hostTokens);
            link.record(carried);
        }
        return transfer;
    }

    /** The first layer's q, k and v of a step of one batch. */
    void projectFirst(Stream stream, Pass pass) {
        project(stream, pass, 0, 0, 0);
    }

    /** For tests: what is enqueued later does not run, for a transfer kernel stays that nobody ends. */
    void hang(Stream stream) {
        kernels.transfer.launch(stream, 1, 1, hostTokens);
    }

    /**
     * Whether a transfer kernel runs beside a step of one batch: own products leave room for a block, cublasLt's may
     * want whole multiprocessors.
     */
    boolean launchesTransfer(Extent extent) {
        return extent.slots() > 0
                && extent.hostTokens() == 0
                && extent.has(Part.ATTENTION)
                && !linear.finishes(extent.rows());
    }

    /**
     * One layer of a step of one batch, but the last: from storing K and V to the next layer's q, k and v. Between
     * layers KV moves.
     */
    void layer(Stream stream, Pass pass, int layer, boolean transfer) {
        store(stream, pass, 0, layer);
        attention(stream, pass, 0, layer, !transfer);
        project(stream, pass, 0, layer + 1, postProjection(stream, first, pass.extent(), layer));
    }

    /** The last layer of a step of one batch, and its logits. */
    void lastLayer(Stream stream, Pass pass, boolean transfer) {
        int layer = config.layers() - 1;
        store(stream, pass, 0, layer);
        attention(stream, pass, 0, layer, !transfer);
        between(stream, 0, config.layers());
        finish(stream, pass, 0, 0);
        logits(stream, List.of(pass));
    }

    /** Enqueues what comes after the layers. */
    void end(Stream stream, List<Pass> passes, boolean transfer) {
        if (transfer || passes.stream().anyMatch(pass -> sendsHostTokens(pass.extent()))) {
            stream.waitFor(carried);
        }
    }

    /** Whether host tokens have a kernel of their own to depart by, beside the step's, which wait for fewer. */
    static boolean sendsHostTokens(Extent extent) {
        return extent.hostTokens() > SENT_BY_ROTATION;
    }

    /** Moves KV before a layer's K and V are stored, or, after the last one's attention, what is left. */
    private void between(Stream stream, int index, int layer) {
        if (index == 0) {
            pools.between(stream, layer);
        }
    }

    private Activations activations(int pass) {
        return pass == 0 ? first : second.orElseThrow();
    }

    private void embed(Stream stream, Pass pass, int index) {
        Extent extent = pass.extent();
        StepBuffer step = pass.step();
        Activations a = activations(index);
        if (extent.has(Part.ROW_WISE)) {
            kernels.embed.launch(
                    stream,
                    extent.rows(),
                    1,
                    step.tokens(),
                    choice.chosen(),
                    step.positions(),
                    weights.embeddings,
                    frequencies.address(),
                    a.residual().address(),
                    a.angles().address(),
                    extent.firstSlot(),
                    hostTokens,
                    step.admitted(),
                    step.admittedDraws());
        }
    }

    /**
     * Norm, q, k and v.
     *
     * @param pending partial sums of the product before
     */
    private void project(Stream stream, Pass pass, int index, int layer, int pending) {
        Activations a = activations(index);
        Extent extent = pass.extent();
        norm(stream, a, extent, pending, weights.layers.get(layer).inputNorm(), layer);
        if (extent.has(Part.GEMM)) {
            linear.qkv(stream, a, layer, extent.rows());
        }
    }

    /** Rotates what {@link #project} left and stores K and V; the CPU's rows depart. */
    private void store(Stream stream, Pass pass, int index, int layer) {
        Extent extent = pass.extent();
        rotate(
                stream,
                activations(index),
                pass.step(),
                extent,
                layer,
                extent.has(Part.GEMM) ? linear.qkvSplits(extent.rows()) : 0);
        if (sendsHostTokens(extent)) {
            stream.record(left);
            link.waitFor(left);
            kernels.sendHostTokens.launch(
                    link,
                    extent.hostTokens(),
                    1,
                    pass.step().header(),
                    pass.step().slots(),
                    hostTokens,
                    layer);
            link.record(carried);
        }
    }

    private void attention(Stream stream, Pass pass, int index, int layer, boolean carries) {
        Activations a = activations(index);
        Extent extent = pass.extent();
        attend(stream, a, pass.step(), extent, layer, carries);
        if (extent.hostTokens() > 0) {
            kernels.receiveHostTokens.launch(
                    stream,
                    Math.min(extent.hostTokens(), multiprocessors * COLLECTORS) + 1,
                    1,
                    pass.step().header(),
                    pass.step().slots(),
                    hostTokens,
                    layer,
                    index * config.layers() + layer,
                    a.attended().address());
        }
    }

    /** Returns how many partial sums of its last product are pending. */
    private int postProjection(Stream stream, Activations a, Extent extent, int layer) {
        int pending = extent.has(Part.GEMM) ? linear.output(stream, a, layer, extent.rows()) : 0;
        norm(stream, a, extent, pending, weights.layers.get(layer).attentionNorm(), layer + 1);
        return feedForward(stream, a, extent, layer);
    }

    /**
     * The last post-projection and norm, of the sampled rows alone: the others have stored their K and V.
     *
     * @param before rows that the pass before has sampled: normed rows come behind its
     */
    private void finish(Stream stream, Pass pass, int index, int before) {
        Extent all = pass.extent();
        if (all.sampled() == 0) {
            return;
        }
        Activations a = activations(index);
        boolean closes = all.sampled() < all.rows();
        if (closes && all.has(Part.ROW_WISE)) {
            kernels.closeUp.launch(
                    stream,
                    Kernels.closeUpBlocks(shape),
                    1,
                    a.residual().address(),
                    a.attended().address(),
                    pass.step().samples(),
                    all.sampled());
        }
        Extent extent = closes ? all.sampledOnly() : all;
        int pending = postProjection(stream, a, extent, config.layers() - 1);
        if (extent.has(Part.ROW_WISE)) {
            long out = first.normed().address()
                    + (long) before * shape.hidden() * shape.type().bytes();
            Kernels.Norm norm = kernels.addNorm(extent.sampled());
            norm.kernel()
                    .launch(
                            stream,
                            extent.sampled(),
                            norm.blocks(),
                            a.residual().address(),
                            linear.partials(),
                            pending,
                            extent.rows(),
                            weights.norm,
                            closes ? 0L : pass.step().samples(),
                            out,
                            epsilon,
                            extent.firstSlot(),
                            hostTokens,
                            config.layers());
        }
    }

    private void logits(Stream stream, List<Pass> passes) {
        int sampled = passes.stream().mapToInt(pass -> pass.extent().sampled()).sum();
        if (sampled == 0) {
            return;
        }
        Extent any = passes.getFirst().extent();
        if (any.has(Part.GEMM)) {
            linear.head(stream, first, sampled);
        }
        if (any.has(Part.ROW_WISE)) {
            choice.mostProbable(stream, sampled);
        }
    }

    private int feedForward(Stream stream, Activations a, Extent extent, int layer) {
        int rows = extent.rows();
        if (extent.has(Part.GEMM)) {
            linear.gateUp(stream, a, layer, rows);
        }
        if (extent.has(Part.ROW_WISE)) {
            activate(stream, a, rows);
        }
        return extent.has(Part.GEMM) ? linear.down(stream, a, layer, rows) : 0;
    }

    private void activate(Stream stream, Activations a, int rows) {
        if (!linear.activates(rows)) {
            long threads = (long) rows * shape.intermediate() / 8;
            kernels.swiglu.launch(
                    stream,
                    (int) ((threads + 255) / 256),
                    1,
                    a.gateUp().address(),
                    a.activation().address(),
                    rows);
        }
    }

    /** Gate, up and activation of the first layers, whatever their rows hold: to be timed. */
    void gateUp(Stream stream, int layers, int rows) {
        for (int layer = 0; layer < layers; layer++) {
            linear.gateUp(stream, first, layer, rows);
            activate(stream, first, rows);
        }
    }

    /** @param mapLayer who sits in the slots: those who boarded at the layer before it */
    private void norm(Stream stream, Activations a, Extent extent, int splits, long weight, int mapLayer) {
        if (extent.has(Part.ROW_WISE)) {
            Kernels.Norm norm = linear.finishes(extent.rows()) ? kernels.addNormMany : kernels.addNorm(extent.rows());
            norm.kernel()
                    .launch(
                            stream,
                            extent.rows(),
                            norm.blocks(),
                            a.residual().address(),
                            linear.partials(),
                            splits,
                            extent.rows(),
                            weight,
                            0L,
                            a.normed().address(),
                            epsilon,
                            extent.firstSlot(),
                            hostTokens,
                            mapLayer);
        }
    }

    /** Bias, rotation, and the step's K and V into their blocks. */
    private void rotate(Stream stream, Activations a, StepBuffer step, Extent extent, int index, int splits) {
        if (!extent.has(Part.ROW_WISE)) {
            return;
        }
        CudaWeights.Layer layer = weights.layers.get(index);
        kernels.ropeStore.launch(
                stream,
                extent.rows() + (extent.slots() > 0 ? 1 : 0),
                Kernels.ropeBlocks(shape),
                linear.partials(),
                splits,
                extent.rows(),
                a.qkv().address(),
                layer.qkvBias(),
                layer.queryNorm(),
                layer.keyNorm(),
                epsilon,
                a.angles().address(),
                step.slots(),
                a.queries().address(),
                blocks + index * layerBytes,
                gpuBlocks,
                pools.stagingShift(index),
                extent.firstSlot(),
                hostTokens,
                index,
                extent.slots() > 0 ? extent.rows() : Integer.MAX_VALUE,
                sendsHostTokens(extent) || extent.hostTokens() == 0 ? 0L : step.header());
    }

    /** @param carries whether a block carries in-flight tokens over the link, where no transfer kernel does */
    private void attend(Stream stream, Activations a, StepBuffer step, Extent extent, int layer, boolean carries) {
        if (!extent.has(Part.ATTENTION)) {
            return;
        }
        boolean decodes = extent.decodes() || extent.slots() > 0;
        boolean together = decodes && extent.tiles() > 0 && shares.together();
        if (together) {
            attendPrompts(stream, a, step, extent, layer, step.header());
        }
        if (decodes) {
            int carrier = extent.slots() > 0 && carries ? 1 : 0;
            int place = carrier * CARRIES | (layer == config.layers() - 1 ? LAST_LAYER : 0) | (together ? BESIDE : 0);
            kernels.decodeAttention.launch(
                    stream,
                    shares.attentionBlocks() + carrier,
                    1,
                    a.queries().address(),
                    blocks + layer * layerBytes,
                    step.tables(),
                    step.sequences(),
                    step.header(),
                    shape.scoreScale(),
                    a.attended().address(),
                    partialOut.address(),
                    partialNorm.address(),
                    extent.slots(),
                    extent.firstSlot(),
                    hostTokens,
                    layer,
                    place);
        }
        if (extent.tiles() > 0 && !together) {
            attendPrompts(stream, a, step, extent, layer, 0L);
        }
    }

    /** @param header of the step where decode attention follows and runs beside it; else 0, as always for prefill.cu */
    private void attendPrompts(Stream stream, Activations a, StepBuffer step, Extent extent, int layer, long header) {
        int splits = shares.promptSplits(extent.tiles(), extent.rows());
        kernels.prefillAttention.launch(
                stream,
                kernels.prefillBlocks(config.kvHeads() * extent.tiles() * splits, multiprocessors),
                1,
                a.queries().address(),
                blocks + layer * layerBytes,
                step.tables(),
                step.tiles(),
                shape.scoreScale(),
                a.attended().address(),
                gpuBlocks,
                pools.stagingShift(layer),
                splits,
                prefillParts.address(),
                prefillFinished.address(),
                extent.tiles(),
                header);
    }

    /** How attention is cut into work. */
    SmPartition shares() {
        return shares;
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(linear, choice, link, left, carried, first));
        second.ifPresent(all::add);
        all.addAll(buffers);
        Resources.closeAll(all);
    }
}
