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
    /** Staging areas of one layer each: one is written while the other leaves. */
    public static final int STAGES = 2;
    /** Bytes per layer that the copy engine copies in either direction; larger prompts are copied by kernels. */
    private static final long COPIED_BYTES = 16L << 20;

    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final KvPools pools;
    private final Kernels kernels;
    private final int layers;
    private final int multiprocessors;
    private final long hostBlockBytes;
    private int copiedBlocks;
    private final BlockCopyList leaving;
    private final BlockCopyList returning;
    private final Stream out;
    private final Stream back;
    /** [STAGES][copiedBlocks] host blocks each, to and from the host. */
    private final DeviceBuffer outgoing;

    private final DeviceBuffer incoming;
    private final Event[] free = new Event[STAGES];
    private final Event attended;
    private final Event[] returned = new Event[STAGES];
    private final Event offloaded;
    private int stagingUsed;

    /** @param maxSequences max sequences whose prefill is offloaded in a step */
    PrefillOffload(
            Device device, Kernels kernels, KvPools pools, ModelShape shape, int stagingBlocks, int maxSequences) {
        this.pools = pools;
        this.kernels = kernels;
        this.layers = shape.config().layers();
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        int max = stagingBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.copyList(max, true, "offloaded prefills");
        this.returning = pools.copyList(max, false, "earlier chunks of offloaded prefills");
        this.out = device.urgentStream("offloaded prefills");
        this.back = device.urgentStream("earlier chunks of offloaded prefills");
        this.offloaded = device.event();
        this.attended = device.event();
        this.copiedBlocks = (int) (COPIED_BYTES / hostBlockBytes);
        long copyBytes = stagingBlocks > 0 ? STAGES * COPIED_BYTES : 0;
        this.outgoing = device.allocate(copyBytes, "host blocks to copy to the host");
        this.incoming = device.allocate(copyBytes, "host blocks copied from the host");
        for (int i = 0; i < STAGES; i++) {
            free[i] = device.event();
            returned[i] = device.event();
        }
    }

    /** Bytes of GPU memory besides the staging. */
    public static long bytes() {
        return 2 * STAGES * COPIED_BYTES;
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

    /** Allocates staging for a chunk; returns its block numbers, {@code from} and up. */
    int[] stage(Chunk chunk, int from) {
        int context = chunk.start() + chunk.rows();
        int[] blocks = new int[(context - 1) / ModelShape.BLOCK_TOKENS + 1];
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
            for (int layer = 0; layer < Math.min(STAGES, layers); layer++) {
                returnLayer(layer);
            }
        }
    }

    private void returnLayer(int layer) {
        if (usesCopyEngine()) {
            returning.forEachRun((host, slot, blocks) -> back.upload(
                    incoming,
                    copiedOffset(layer, slot),
                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                    blocks * hostBlockBytes));
            convert(back, kernels.moveIn, layer, incoming, returning);
        } else {
            pools.move(back, kernels.moveIn, pools.stage(layer), returning, layer, 1);
        }
        back.record(returned[layer % STAGES]);
    }

    private void convert(Stream stream, Kernel kernel, int layer, DeviceBuffer hostBlocks, BlockCopyList moves) {
        kernel.launch(
                stream,
                multiprocessors,
                1,
                pools.stage(layer),
                hostBlocks.address() + copiedOffset(layer, 0),
                0L,
                0L,
                moves.address(),
                1);
        moves.sum(stream, pools.stage(layer), 0, layer, 1);
    }

    private long copiedOffset(int layer, int slot) {
        return (layer % STAGES * copiedBlocks + slot) * hostBlockBytes;
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
            back.waitFor(free[(layer - 1) % STAGES]);
            returnLayer(layer + 1);
        }
        if (layer >= STAGES && layer < layers) {
            stream.waitFor(free[layer % STAGES]);
        }
        if (layer < layers && returns()) {
            stream.waitFor(returned[layer % STAGES]);
        }
    }

    private void offload(int layer) {
        out.waitFor(attended);
        if (usesCopyEngine()) {
            convert(out, kernels.moveOut, layer, outgoing, leaving);
            out.record(free[layer % STAGES]);
            leaving.forEachRun((host, slot, blocks) -> out.download(
                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                    outgoing,
                    copiedOffset(layer, slot),
                    blocks * hostBlockBytes));
        } else {
            pools.move(out, kernels.moveOut, pools.stage(layer), leaving, layer, 1);
            out.record(free[layer % STAGES]);
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
