package dev.tandem.cuda.forward;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.kernels.KernelConstants;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.kv.KvPools;

/** Launches decode attention (decode.cu) and prefill attention (prefill.cu, prefill_wgmma.cu) of a layer. */
public final class AttentionLauncher {
    private final Kernels kernels;
    private final SmPartition partition;
    private final ForwardBuffers buffers;
    private final KvPools pools;
    private final long hostTokens;
    private final ModelShape shape;
    private final int lastLayer;

    /** @param hostTokens address of the host link's memory; 0 without attention threads */
    public AttentionLauncher(
            Kernels kernels, SmPartition partition, ForwardBuffers buffers, KvPools pools, long hostTokens) {
        this.kernels = kernels;
        this.partition = partition;
        this.buffers = buffers;
        this.pools = pools;
        this.hostTokens = hostTokens;
        this.shape = partition.shape();
        this.lastLayer = shape.config().layers() - 1;
    }

    /**
     * Launches attention of a sub-batch's rows.
     *
     * @param carries whether a thread block of decode attention transfers in-flight tokens, because no transfer kernel
     *     runs
     */
    void launch(Stream stream, Activations a, Pass pass, int layer, boolean carries) {
        StepInputs step = pass.step();
        Extent extent = pass.extent();
        boolean exchanges = extent.slots() > 0 && !pass.resumes();
        boolean decodes = extent.decodes() || exchanges;
        boolean together = decodes && extent.tiles() > 0 && partition.together();
        if (together) {
            prefill(stream, a, step, extent, layer, step.header());
        }
        if (decodes) {
            decode(stream, a, pass, layer, carries && exchanges, together);
        }
        if (extent.tiles() > 0 && !together) {
            prefill(stream, a, step, extent, layer, 0L);
        }
    }

    /** @param together whether it runs beside prefill attention, which is the kernel before */
    private void decode(Stream stream, Activations a, Pass pass, int layer, boolean carries, boolean together) {
        StepInputs step = pass.step();
        boolean exchanges = pass.extent().slots() > 0 && !pass.resumes();
        int flags = (exchanges ? KernelConstants.DECODE_EXCHANGES : 0)
                | (carries ? KernelConstants.DECODE_TRANSFERS : 0)
                | (layer == lastLayer ? KernelConstants.DECODE_LAST_LAYER : 0)
                | (together ? KernelConstants.DECODE_OVERLAPS_PREFILL : 0);
        int window = shape.config().window(layer);
        int group = pools.layout().groupOf(layer);
        kernels.decodeAttention.launch(
                stream,
                partition.attentionBlocks() + (carries ? 1 : 0),
                1,
                a.queries().address(),
                pools.layer(layer),
                step.tables(group),
                window > 0 ? step.windowedSequences() : step.sequences(),
                window > 0 ? step.windowedHeader() : step.header(),
                shape.scoreScale(),
                a.attended().address(),
                buffers.decodePartials().address(),
                buffers.decodeNorms().address(),
                pass.returning(layer),
                pass.returning(layer - 1),
                pass.extent().firstSlot(),
                hostTokens,
                layer,
                flags,
                window);
    }

    /**
     * Launches prefill attention of the extent's tiles.
     *
     * @param header address of the step's header where decode attention runs beside this kernel, else 0
     */
    private void prefill(Stream stream, Activations a, StepInputs step, Extent extent, int layer, long header) {
        int splits = partition.promptSplits(extent.tiles(), extent.rows());
        int units = shape.config().kvHeads() * extent.tiles() * splits;
        int window = shape.config().window(layer);
        kernels.prefillAttention.launch(
                stream,
                kernels.prefillBlocks(units, partition.multiprocessors()),
                1,
                a.queries().address(),
                pools.layer(layer),
                step.tables(pools.layout().groupOf(layer)),
                window > 0 ? step.windowedTiles() : step.tiles(),
                shape.scoreScale(),
                a.attended().address(),
                pools.pages(),
                pools.stagingShift(layer),
                splits,
                buffers.prefillPartials().address(),
                buffers.prefillFinished().address(),
                extent.tiles(),
                header,
                window);
    }
}
