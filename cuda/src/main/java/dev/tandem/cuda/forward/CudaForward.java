package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.Extent.Part;
import dev.tandem.cuda.forward.RowLauncher.Pending;
import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.gemm.LayerGemms;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.weights.CudaWeights;
import dev.tandem.model.config.ModelConfig;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Enqueues a decoder as a sequence of kernels: embed; per layer norm, QKV projection, rotation and KV store, attention,
 * output projection, norm, gate and up, down; then logits and argmax. Norms on the outputs of projections are part of
 * the norm kernels. Its methods return without waiting.
 *
 * <p>Steps of few rows use split-K GEMM kernels, whose partial sums the next row-wise kernel adds up. Steps of many
 * rows use cublasLt ({@link GemmPlan}).
 *
 * <p>Owned by: engine thread.
 */
public final class CudaForward {
    private final CudaWeights weights;
    private final ModelShape shape;
    private final ModelConfig config;
    private final LayerGemms gemms;
    private final GemmPlan plan;
    private final ForwardBuffers buffers;
    private final KvPools pools;
    private final Launchers launchers;

    /** One launcher for each family of kernels beside the GEMMs. */
    public record Launchers(RowLauncher rows, AttentionLauncher attention, HostTransferLauncher hostTransfer) {}

    public CudaForward(
            CudaWeights weights,
            LayerGemms gemms,
            GemmPlan plan,
            ForwardBuffers buffers,
            KvPools pools,
            Launchers launchers) {
        this.weights = weights;
        this.shape = weights.shape();
        this.config = shape.config();
        this.gemms = gemms;
        this.plan = plan;
        this.buffers = buffers;
        this.pools = pools;
        this.launchers = launchers;
    }

    /** The same forward pass with other GEMMs; it shares all memory with this one. */
    public CudaForward with(GemmPlan other) {
        return new CudaForward(weights, gemms, other, buffers, pools, launchers);
    }

    public GemmPlan plan() {
        return plan;
    }

    /**
     * A sub-batch of a step.
     *
     * @param extent at the layer where it has most rows
     * @param slotLayers how many rows of in-flight tokens it has at which layer
     * @param scored rows of prompts whose next token is scored
     */
    public record Pass(StepInputs step, Extent extent, SlotLayers slotLayers, ScoredRows scored) {
        /** A sub-batch that has all of its rows at every layer. */
        public Pass(StepInputs step, Extent extent) {
            this(step, extent, SlotLayers.ALL);
        }

        /** A sub-batch that scores no prompt. */
        public Pass(StepInputs step, Extent extent, SlotLayers slotLayers) {
            this(step, extent, slotLayers, ScoredRows.NONE);
        }

        /** Whether the step waits for some in-flight tokens. */
        boolean resumes() {
            return extent.resumed() > 0;
        }

        /** Its extent between the attention of a layer, -1 for the embedding, and that of the next layer. */
        Extent after(int layer) {
            return slotLayers.after(extent, layer);
        }

        /** Slots to which in-flight tokens return at a layer without the step waiting for them. */
        int returning(int layer) {
            return resumes() ? 0 : after(layer).slots();
        }
    }

    /**
     * Enqueues a step of one sub-batch whose inputs are in {@code step}; the most probable tokens are then
     * {@link Logits#chosen}.
     */
    public void run(Stream stream, StepInputs step, Extent extent) {
        run(stream, List.of(new Pass(step, extent)));
    }

    /**
     * Enqueues a step of one or two sub-batches, which take turns layer by layer (NEO, Figure 5): while the CPU
     * computes attention of one sub-batch's host tokens, the GPU computes output projection, MLP and next QKV
     * projection of the other. Slots and resumed tokens are in the last sub-batch; only the first may move KV. Sampled
     * rows come in the order of the sub-batches.
     */
    public void run(Stream stream, List<Pass> passes) {
        boolean transfer = begin(stream, passes);
        for (int p = 0; p < passes.size(); p++) {
            project(stream, passes.get(p), p, 0, nothingPending(passes.get(p).after(-1)));
            awaitKv(stream, p, 0);
            store(stream, passes.get(p), p, 0);
        }
        for (int layer = 0; layer < config.layers(); layer++) {
            int sampled = 0;
            for (int p = 0; p < passes.size(); p++) {
                Pass pass = passes.get(p);
                attend(stream, pass, p, layer, !transfer);
                if (layer + 1 < config.layers()) {
                    Pending pending = postProjection(stream, buffers.activations(p), pass.after(layer), layer);
                    project(stream, pass, p, layer + 1, pending);
                    awaitKv(stream, p, layer + 1);
                    store(stream, pass, p, layer + 1);
                } else {
                    finish(stream, pass, p, sampled);
                    sampled += pass.after(layer).sampled();
                }
            }
        }
        logits(stream, passes);
        end(stream, passes, transfer);
    }

    /**
     * Enqueues the kernels before the first layer.
     *
     * @return whether a transfer kernel runs, for which {@link #end} waits
     */
    private boolean begin(Stream stream, List<Pass> passes) {
        for (int p = 0; p < passes.size(); p++) {
            Pass pass = passes.get(p);
            // without rows: all tokens that should finish have ended since the plan was made
            if (pass.extent().has(Part.ROW_WISE) && pass.extent().rows() > 0) {
                launchers.rows().embed(stream, buffers.activations(p), pass.step(), pass.extent());
            }
        }
        if (passes.stream().anyMatch(Pass::resumes)) {
            launchers.hostTransfer().beginResuming();
        }
        boolean transfer = passes.size() == 1 && launchesTransfer(passes.getFirst());
        if (transfer) {
            launchers.hostTransfer().transferBeside(stream);
        }
        return transfer;
    }

    /** For tests: blocks the stream by a transfer kernel that waits for a later step of the same stream. */
    public void hang(Stream stream) {
        launchers.hostTransfer().transferAlone(stream);
    }

    /**
     * Whether a transfer kernel runs beside a step of one sub-batch. The project's own GEMM kernels leave room for its
     * thread block; those of cublasLt may want whole multiprocessors.
     */
    private boolean launchesTransfer(Pass pass) {
        Extent extent = pass.extent();
        return extent.slots() > 0
                && extent.resumed() == 0
                && extent.hostTokens() == 0
                && extent.has(Part.ATTENTION)
                && usesOwnGemms(pass);
    }

    /** Whether no layer of a sub-batch uses cublasLt. */
    private boolean usesOwnGemms(Pass pass) {
        return IntStream.range(-1, pass.slotLayers().countsByLayer() ? config.layers() : 0)
                .noneMatch(layer -> plan.finishes(pass.after(layer).rows()));
    }

    /** Enqueues the wait for the transfers of a step, after its layers. */
    private void end(Stream stream, List<Pass> passes, boolean transfer) {
        if (transfer || passes.stream().anyMatch(Pass::resumes)) {
            launchers.hostTransfer().join(stream);
        }
    }

    /** Waits for KV copies before a layer stores its K and V. */
    private void awaitKv(Stream stream, int subBatch, int layer) {
        if (subBatch == 0) {
            pools.beforeStore(stream, layer);
        }
    }

    private Pending nothingPending(Extent extent) {
        return pending(extent, 0);
    }

    private Pending pending(Extent extent, int splits) {
        return new Pending(gemms.partials(), splits, plan.finishes(extent.rows()), 0);
    }

    /**
     * A projection that is to be added to the residual stream.
     *
     * @param splits as the GEMM returns them
     * @param norm address of the weights of its norm; 0 for none
     */
    private Pending pending(Activations a, Extent extent, int splits, long norm) {
        boolean finishes = plan.finishes(extent.rows());
        return finishes && a.projected().isPresent()
                ? new Pending(a.projected().get().address(), 1, true, norm)
                : new Pending(gemms.partials(), splits, finishes, norm);
    }

    /** Norm and QKV projection. */
    private void project(Stream stream, Pass pass, int subBatch, int layer, Pending pending) {
        Activations a = buffers.activations(subBatch);
        Extent extent = pass.after(layer - 1);
        if (extent.rows() == 0) {
            return; // all rows are those of in-flight tokens, which stand at other layers
        }
        if (extent.has(Part.ROW_WISE)) {
            launchers
                    .rows()
                    .norm(stream, a, extent, pending, weights.layers.get(layer).inputNorm(), layer);
        }
        if (extent.has(Part.GEMM)) {
            gemms.qkv(stream, plan, a, layer, extent.rows());
        }
    }

    /** Rotates the result of {@link #project}, stores K and V, and sends q, k and v of host tokens. */
    private void store(Stream stream, Pass pass, int subBatch, int layer) {
        Extent extent = pass.after(layer - 1);
        int returning = pass.returning(layer);
        if (extent.has(Part.ROW_WISE) && extent.rows() + returning > 0) {
            Activations a = buffers.activations(subBatch);
            boolean computes = extent.rows() > 0;
            int splits = computes && extent.has(Part.GEMM) ? gemms.qkvSplits(plan, extent.rows()) : 0;
            Pending pending = pending(extent, splits);
            if (computes) {
                launchers.rows().qkScales(stream, a, extent, pending, layer);
            }
            launchers.rows().ropeStore(stream, a, pass.step(), extent, pending, layer, returning);
        }
        if (pass.resumes() && extent.inFlight() > 0) {
            launchers.hostTransfer().sendInFlight(stream, extent.inFlight(), layer);
        }
    }

    private void attend(Stream stream, Pass pass, int subBatch, int layer, boolean carries) {
        Activations a = buffers.activations(subBatch);
        Extent extent = pass.extent();
        if (extent.has(Part.ATTENTION)) {
            launchers.attention().launch(stream, a, pass, layer, carries);
        }
        if (subBatch == 0) {
            pools.afterAttention(stream, layer);
        }
        if (extent.hostTokens() > 0) {
            launchers.hostTransfer().receive(stream, a, pass.step(), extent, subBatch, layer);
        }
        if (pass.resumes()) {
            launchers.hostTransfer().receiveInFlight(stream, a, pass.step(), pass.after(layer), subBatch, layer);
        }
        clearNewRows(stream, a, pass, layer);
    }

    /**
     * Zeroes the residual stream of rows that this layer is the first to compute. The embedding has zeroed them too,
     * but GEMMs of the library compute more rows than they are asked for ({@link GemmPlan#roundUp}), and those of
     * earlier layers have added to these rows.
     */
    private void clearNewRows(Stream stream, Activations a, Pass pass, int layer) {
        int before = pass.after(layer - 1).rows();
        int rows = pass.after(layer).rows();
        if (layer > 0 && rows > before && pass.extent().has(Part.ROW_WISE)) {
            long rowBytes = (long) shape.hidden() * Float.BYTES;
            stream.fill(a.residual(), before * rowBytes, (rows - before) * rowBytes, 0);
        }
    }

    /** Output projection, norm and MLP; the down projection is then pending. */
    private Pending postProjection(Stream stream, Activations a, Extent extent, int layer) {
        int rows = extent.rows();
        if (rows == 0) {
            return nothingPending(extent);
        }
        CudaWeights.Layer weight = weights.layers.get(layer);
        int splits = extent.has(Part.GEMM) ? gemms.output(stream, plan, a, layer, rows) : 0;
        if (extent.has(Part.ROW_WISE)) {
            Pending pending = pending(a, extent, splits, weight.attentionNorm());
            launchers.rows().norm(stream, a, extent, pending, weight.mlpInputNorm(), layer + 1);
        }
        if (extent.has(Part.GEMM)) {
            gemms.gateUp(stream, plan, a, layer, rows);
        }
        if (extent.has(Part.ROW_WISE)) {
            activate(stream, a, rows);
        }
        int downSplits = extent.has(Part.GEMM) ? gemms.down(stream, plan, a, layer, rows) : 0;
        return pending(a, extent, downSplits, weight.mlpNorm());
    }

    private void activate(Stream stream, Activations a, int rows) {
        if (!plan.activates(rows)) {
            launchers.rows().swiglu(stream, a, rows);
        }
    }

    /** Enqueues gate and up projection and SwiGLU of the first layers on arbitrary activations, for timing. */
    public void gateUp(Stream stream, int layers, int rows) {
        Activations a = buffers.activations(0);
        for (int layer = 0; layer < layers; layer++) {
            gemms.gateUp(stream, plan, a, layer, rows);
            activate(stream, a, rows);
        }
    }

    /**
     * Enqueues the last layer's output projection, MLP and norm. Only rows that will be sampled run these; the others
     * have stored their K and V. Where rows are scored, all run them.
     *
     * @param before sampled rows of the sub-batch before, which come first in the normed rows
     */
    private void finish(Stream stream, Pass pass, int subBatch, int before) {
        Extent all = pass.after(config.layers() - 1);
        boolean scores = pass.scored().count() > 0;
        if (all.sampled() == 0 && !scores) {
            return;
        }
        Activations a = buffers.activations(subBatch);
        boolean closes = !scores && all.sampled() < all.rows();
        if (closes && all.has(Part.ROW_WISE)) {
            launchers.rows().compactRows(stream, a, pass.step(), all.sampled());
        }
        Extent extent = closes ? all.sampledOnly() : all;
        Pending pending = postProjection(stream, a, extent, config.layers() - 1);
        score(stream, pass.scored(), a, extent, pending);
        if (extent.has(Part.ROW_WISE) && extent.sampled() > 0) {
            long first = buffers.activations(0).normed().address();
            long out = first + (long) before * shape.hidden() * shape.type().bytes();
            long rowMap = closes ? 0 : pass.step().samples();
            launchers.rows().lastNorm(stream, a, extent, pending, rowMap, extent.sampled(), out);
        }
    }

    /**
     * Enqueues the scores of prompts' rows, as many at a time as there is room for logits. They are in the way of no
     * sampled row: of the first sub-batch none is normed yet, and prompts are in no other.
     */
    private void score(Stream stream, ScoredRows scored, Activations a, Extent extent, Pending pending) {
        int room = buffers.logits().rows();
        Activations first = buffers.activations(0);
        for (int from = 0; from < scored.count(); from += room) {
            ScoredRows some = scored.part(from, Math.min(room, scored.count() - from));
            launchers
                    .rows()
                    .lastNorm(
                            stream,
                            a,
                            extent,
                            pending,
                            some.rows(),
                            some.count(),
                            first.normed().address());
            gemms.head(stream, plan, first, some.count());
            buffers.logits().score(stream, some);
        }
    }

    private void logits(Stream stream, List<Pass> passes) {
        int last = config.layers() - 1;
        int sampled =
                passes.stream().mapToInt(pass -> pass.after(last).sampled()).sum();
        if (sampled == 0) {
            return;
        }
        Extent any = passes.getFirst().extent();
        if (any.has(Part.GEMM)) {
            gemms.head(stream, plan, buffers.activations(0), sampled);
        }
        if (any.has(Part.ROW_WISE)) {
            buffers.logits().argmax(stream, sampled);
        }
    }
}
