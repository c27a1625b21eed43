package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.weights.CudaWeights;
import dev.tandem.model.config.Rope;
import java.util.List;

/** Launches the row-wise kernels between the GEMMs (rows.cu): embedding, norms, rotation, SwiGLU, compact_rows. */
public final class RowLauncher {
    private final Kernels kernels;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final ForwardBuffers buffers;
    private final KvPools pools;
    private final long hostTokens;
    private final float epsilon;
    /** Of each layer: the index of its rotation in the angles of a row. */
    private final int[] rotations;

    /** @param hostTokens address of the host link's memory; 0 without attention threads */
    public RowLauncher(Kernels kernels, CudaWeights weights, ForwardBuffers buffers, KvPools pools, long hostTokens) {
        this.kernels = kernels;
        this.weights = weights;
        this.shape = weights.shape();
        this.buffers = buffers;
        this.pools = pools;
        this.hostTokens = hostTokens;
        this.epsilon = (float) shape.config().normEpsilon();
        List<Rope> all = shape.variant().rotations();
        this.rotations = shape.variant().ropes().stream().mapToInt(all::indexOf).toArray();
    }

    /** Launches the embedding and rotation angles of a sub-batch's rows. */
    void embed(Stream stream, Activations a, StepInputs step, Extent extent) {
        kernels.embed.launch(
                stream,
                extent.rows(),
                1,
                step.tokens(),
                buffers.logits().chosen().address(),
                step.positions(),
                weights.embeddings,
                buffers.frequencies().address(),
                a.residual().address(),
                a.angles().address(),
                extent.firstSlot(),
                hostTokens,
                step.admitted(),
                step.admittedDraws());
    }

    /**
     * The result of the preceding GEMM, as its method leaves it.
     *
     * @param partials address of [splits][rows][width] fp32 sums
     * @param splits sums to add up; 0 where nothing is pending, or the GEMM has finished q, k and v or the residual
     *     stream
     * @param finishes whether GEMMs of so many rows leave finished values
     * @param norm address of the weights of the norm on the sums; 0 for none
     */
    record Pending(long partials, int splits, boolean finishes, long norm) {}

    /**
     * Adds the pending GEMM, or its norm, to the residual stream, then computes the norm of every row.
     *
     * @param weight of the norm; 0 for none
     * @param mapLayer layer whose slot map says which in-flight tokens the slots hold
     */
    void norm(Stream stream, Activations a, Extent extent, Pending pending, long weight, int mapLayer) {
        Kernels.Norm norm = pending.finishes() ? kernels.addNormMany : kernels.addNorm(extent.rows());
        norm(
                stream,
                norm,
                a,
                extent,
                pending,
                weight,
                0L,
                extent.rows(),
                a.normed().address(),
                mapLayer);
    }

    /**
     * Launches the norm after the last layer, of some rows alone. The residual stream does not change.
     *
     * @param rowMap address of the rows' numbers; 0 where they are at the front already
     * @param rows number of rows
     * @param out address of the first row's norm
     */
    void lastNorm(Stream stream, Activations a, Extent extent, Pending pending, long rowMap, int rows, long out) {
        norm(
                stream,
                kernels.addNorm(rows),
                a,
                extent,
                pending,
                weights.norm,
                rowMap,
                rows,
                out,
                shape.config().layers());
    }

    private void norm(
            Stream stream,
            Kernels.Norm norm,
            Activations a,
            Extent extent,
            Pending pending,
            long weight,
            long rowMap,
            int rows,
            long out,
            int mapLayer) {
        norm.kernel()
                .launch(
                        stream,
                        rows,
                        norm.blocks(),
                        a.residual().address(),
                        pending.partials(),
                        pending.splits(),
                        extent.rows(),
                        weight,
                        rowMap,
                        out,
                        epsilon,
                        extent.firstSlot(),
                        hostTokens,
                        mapLayer,
                        pending.norm());
    }

    /** Moves the sampled rows to the front of the residual stream and of attention's output. */
    void compactRows(Stream stream, Activations a, StepInputs step, int sampled) {
        kernels.compactRows.launch(
                stream,
                Kernels.compactRowsBlocks(shape),
                1,
                a.residual().address(),
                a.attended().address(),
                step.samples(),
                sampled);
    }

    /** Computes the factors of the norms over all heads of q and of k, where the model has such norms. */
    void qkScales(Stream stream, Activations a, Extent extent, Pending pending, int layer) {
        kernels.qkScales.ifPresent(kernel -> kernel.launch(
                stream,
                extent.rows(),
                2,
                pending.partials(),
                pending.splits(),
                extent.rows(),
                a.qkv().address(),
                weights.layers.get(layer).qkvBias(),
                epsilon,
                a.qkScales().orElseThrow().address()));
    }

    /**
     * Applies bias, norms of q and k heads and rotation. Then stores K and V in their blocks, and sends q, k and v of
     * host tokens to the host.
     *
     * @param returning slots for which it chooses in-flight tokens that return at this layer
     */
    void ropeStore(
            Stream stream, Activations a, StepInputs step, Extent extent, Pending pending, int layer, int returning) {
        CudaWeights.Layer weight = weights.layers.get(layer);
        kernels.ropeStore.launch(
                stream,
                extent.rows() + (returning > 0 ? 1 : 0),
                Kernels.ropeBlocks(shape),
                pending.partials(),
                pending.splits(),
                extent.rows(),
                a.qkv().address(),
                weight.qkvBias(),
                weight.queryNorm(),
                weight.keyNorm(),
                epsilon,
                a.angles().address(),
                step.slots(pools.layout().groupOf(layer)),
                a.queries().address(),
                pools.layer(layer),
                pools.pages(),
                pools.stagingShift(layer),
                extent.firstSlot(),
                hostTokens,
                layer,
                returning > 0 ? extent.rows() : Integer.MAX_VALUE,
                returning,
                extent.hostTokens() > 0 ? step.header() : 0L,
                rotations[layer],
                a.qkScales().map(DeviceBuffer::address).orElse(0L));
    }

    /** Launches SwiGLU of a finished gate and up GEMM. */
    void swiglu(Stream stream, Activations a, int rows) {
        long threads = (long) rows * shape.intermediate() / 8;
        kernels.swiglu.launch(
                stream,
                (int) ((threads + KernelConstants.SWIGLU_THREADS - 1) / KernelConstants.SWIGLU_THREADS),
                1,
                a.gateUp().address(),
                a.activation().address(),
                rows);
    }
}
