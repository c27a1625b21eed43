package dev.tandem.cuda.kv;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.kv.StagingSize;
import dev.tandem.engine.step.Chunk;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Moves a prefill's KV to the host layer by layer, while the prefill is computed. The KV of each layer is written to
 * one of two staging areas, and leaves for the host before the layer after next writes there. For a later chunk of a
 * prompt, the earlier chunks' KV returns from the host into a layer's staging while the layer before is computed.
 *
 * <p>The copy engine crosses the link, and kernels convert between staging and host blocks in GPU memory beside it.
 * Prompts beyond its buffers are copied and converted by kernels instead. These wait for room on a multiprocessor, and
 * large GEMMs leave none. A CUDA graph cannot contain copies that differ per step, so a step with prefill offload is
 * one graph per layer at most.
 *
 * <p>Owned by: engine thread.
 */
public final class PrefillOffload implements AutoCloseable {
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final KvPools pools;
    private final Kernels kernels;
    private final int layers;
    private final int multiprocessors;
    private final long hostBlockBytes;
    private final int stagingBlocks;
    /** Host blocks of a layer that the copy engine copies in either direction; more are copied by kernels. */
    private int copiedBlocks;

    private final BlockCopyList leaving;
    private final BlockCopyList returning;
    private final Stream out;
    private final Stream back;
    /** One layer each, to and from the host: conversions and copies of a direction run in order in one stream. */
    private final DeviceBuffer outgoing;

    private final DeviceBuffer incoming;
    private final Event[] free = new Event[StagingSize.AREAS];
    private final Event attended;
    private final Event[] returned = new Event[StagingSize.AREAS];
    private final Event offloaded;
    private int stagingUsed;

    /** @param maxSequences max sequences whose prefill is offloaded in a step */
    PrefillOffload(
            Device device, Kernels kernels, KvPools pools, ModelShape shape, StagingSize staging, int maxSequences) {
        this.pools = pools;
        this.kernels = kernels;
        this.layers = shape.config().layers();
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.stagingBlocks = staging.tokens() / ModelShape.BLOCK_TOKENS;
        int max = stagingBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.copyList(max, true, "offloaded prefills");
        this.returning = pools.copyList(max, false, "earlier chunks of offloaded prefills");
        this.out = device.urgentStream("offloaded prefills");
        this.back = device.urgentStream("earlier chunks of offloaded prefills");
        this.offloaded = device.event();
        this.attended = device.event();
        this.copiedBlocks = (int) (staging.copyBytes() / hostBlockBytes);
        this.outgoing = device.allocate(staging.copyBytes(), "host blocks to copy to the host");
        this.incoming = device.allocate(staging.copyBytes(), "host blocks copied from the host");
        for (int i = 0; i < StagingSize.AREAS; i++) {
            free[i] = device.event();
            returned[i] = device.event();
        }
    }

    /** For tests: copies every prompt by kernels, as if it exceeded the copy engine's buffers. */
    public void useKernels() {
        copiedBlocks = 0;
    }

    void clear() {
        leaving.clear();
        returning.clear();
        stagingUsed = 0;
    }

    /**
     * Allocates staging for a chunk; returns its block numbers, {@code from} and up.
     *
     * @throws ExecutorException when the step's chunks need more than there is
     */
    int[] stage(Chunk chunk, int from) {
        int context = chunk.start() + chunk.rows();
        int[] blocks = new int[(context - 1) / ModelShape.BLOCK_TOKENS + 1];
        if (stagingUsed + blocks.length > stagingBlocks) {
            throw new ExecutorException("the step offloads prompts of " + (stagingUsed + blocks.length)
                    + " blocks layer by layer, and staging has " + stagingBlocks + "; plan fewer");
        }
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = stagingUsed + i;
        }
        leaving.add(chunk.blocks(), blocks, chunk.start(), context);
        returning.add(chunk.blocks(), blocks, 0, chunk.start());
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] += from;
        }
        stagingUsed += blocks.length;
        return blocks;
    }

    /** Takes the checksums of earlier chunks before they return from the host. */
    void beginSums() {
        returning.beginSums();
    }

    void verifySums() {
        leaving.verifySums();
        returning.verifySums();
    }

    boolean any() {
        return leaving.count() > 0;
    }

    boolean returns() {
        return returning.count() > 0;
    }

    private boolean usesCopyEngine() {
        return leaving.count() <= copiedBlocks && returning.count() <= copiedBlocks;
    }

    void upload(Stream stream) {
        leaving.upload(stream, usesCopyEngine());
        returning.upload(stream, usesCopyEngine());
    }

    /** Returns the earlier chunks' KV of the first layers, after {@code planned}. */
    void begin(Event planned) {
        if (returns()) {
            back.waitFor(planned);
            for (int layer = 0; layer < Math.min(StagingSize.AREAS, layers); layer++) {
                returnLayer(layer);
            }
        }
    }

    private void returnLayer(int layer) {
        if (usesCopyEngine()) {
            returning.forEachRun((host, slot, blocks) -> back.upload(
                    incoming,
                    slot * hostBlockBytes,
                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                    blocks * hostBlockBytes));
            convert(back, kernels.moveIn, layer, incoming, returning);
        } else {
            pools.move(back, kernels.moveIn, pools.stage(layer), returning, layer, 1);
        }
        back.record(returned[layer % StagingSize.AREAS]);
    }

    private void convert(Stream stream, Kernel kernel, int layer, DeviceBuffer hostBlocks, BlockCopyList moves) {
        kernel.launch(stream, multiprocessors, 1, pools.stage(layer), hostBlocks.address(), 0L, 0L, moves.address(), 1);
        moves.sum(stream, pools.stage(layer), 0, layer, 1);
    }

    /**
     * Called after the attention of the layer before and before this layer stores its K and V. Starts to offload the
     * layer before, which frees its staging for the next layer.
     */
    void beforeStore(Stream stream, int layer) {
        if (!any()) {
            return;
        }
        if (layer > 0) {
            stream.record(attended);
            offload(layer - 1);
        }
        if (layer > 0 && layer + 1 < layers && returns()) {
            back.waitFor(free[(layer - 1) % StagingSize.AREAS]);
            returnLayer(layer + 1);
        }
        if (layer >= StagingSize.AREAS && layer < layers) {
            stream.waitFor(free[layer % StagingSize.AREAS]);
        }
        if (layer < layers && returns()) {
            stream.waitFor(returned[layer % StagingSize.AREAS]);
        }
    }

    private void offload(int layer) {
        out.waitFor(attended);
        if (usesCopyEngine()) {
            convert(out, kernels.moveOut, layer, outgoing, leaving);
            out.record(free[layer % StagingSize.AREAS]);
            leaving.forEachRun((host, slot, blocks) -> out.download(
                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                    outgoing,
                    slot * hostBlockBytes,
                    blocks * hostBlockBytes));
        } else {
            pools.move(out, kernels.moveOut, pools.stage(layer), leaving, layer, 1);
            out.record(free[layer % StagingSize.AREAS]);
        }
    }

    /** Makes the stream wait until all KV is on the host. */
    void end(Stream stream) {
        if (any()) {
            out.record(offloaded);
            stream.waitFor(offloaded);
        }
    }

    @Override
    public void close() {
        List<AutoCloseable> all =
                new ArrayList<>(List.of(out, back, offloaded, attended, outgoing, incoming, leaving, returning));
        all.addAll(List.of(free));
        all.addAll(List.of(returned));
        Resources.closeAll(all);
    }
}
