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
 * Prompts whose KV lands on the host. Their layers are written to staging for two layers; each leaves for the host
 * before the layer after next writes there. Of a prompt that lands in several chunks, earlier KV comes back into a
 * layer's staging while the layer before is computed, once the one before that is done with it.
 *
 * <p>What crosses the link is carried by the copy engine, beside kernels that convert between staging and whole host
 * blocks in GPU memory; what it has no room for, by kernels that convert on the way: those wait for room on a
 * multiprocessor, and large products leave none. Graphs cannot say what the copy engine copies, so steps in which
 * prompts land have a graph for each layer at most.
 *
 * <p>Owned by: engine thread.
 */
public final class PrefillOffload implements AutoCloseable {
    /** Layers of staging: one is written while the other leaves. */
    public static final int STAGES = 2;
    /** Bytes of a layer that the copy engine carries either way; kernels carry more. */
    private static final long CARRIED_BYTES = 16L << 20;

    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final KvPools pools;
    private final Kernels kernels;
    private final int layers;
    private final int multiprocessors;
    private final long hostBlockBytes;
    private int carriedBlocks;
    private final BlockCopyList leaving;
    private final BlockCopyList returning;
    private final Stream out;
    private final Stream back;
    /** [STAGES][carriedBlocks] host blocks each, on their way out and in. */
    private final DeviceBuffer outgoing;

    private final DeviceBuffer incoming;
    private final Event[] free = new Event[STAGES];
    private final Event attended;
    private final Event[] returned = new Event[STAGES];
    private final Event offloaded;
    private int stagingUsed;

    /** @param maxSequences most sequences that may land in a step */
    PrefillOffload(
            Device device, Kernels kernels, KvPools pools, ModelShape shape, int stagingBlocks, int maxSequences) {
        this.pools = pools;
        this.kernels = kernels;
        this.layers = shape.config().layers();
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        int max = stagingBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.moves(max, true, "landing prompts");
        this.returning = pools.moves(max, false, "earlier chunks of landing prompts");
        this.out = device.urgentStream("landing prompts");
        this.back = device.urgentStream("earlier chunks of landing prompts");
        this.offloaded = device.event();
        this.attended = device.event();
        this.carriedBlocks = (int) (CARRIED_BYTES / hostBlockBytes);
        long carried = stagingBlocks > 0 ? STAGES * CARRIED_BYTES : 0;
        this.outgoing = device.allocate(carried, "host blocks on their way out");
        this.incoming = device.allocate(carried, "host blocks on their way in");
        for (int i = 0; i < STAGES; i++) {
            free[i] = device.event();
            returned[i] = device.event();
        }
    }

    /** GPU memory beside the staging. */
    public static long bytes() {
        return 2 * STAGES * CARRIED_BYTES;
    }

    /** For tests: as if always more landed than the copy engine has room for. */
    public void useKernels() {
        carriedBlocks = 0;
    }

    void clear() {
        leaving.clear();
        returning.clear();
        stagingUsed = 0;
    }

    /** Staging for a prompt: numbers of blocks, the first {@code from}. */
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

    /** Earlier chunks on the host, before they come; and after the step, all that moved. */
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

    private boolean carried() {
        return leaving.count() <= carriedBlocks && returning.count() <= carriedBlocks;
    }

    void upload(Stream stream) {
        leaving.upload(stream, carried());
        returning.upload(stream, carried());
    }

    /** The first layers' earlier KV, after {@code planned}. */
    void begin(Event planned) {
        if (returns()) {
            back.waitFor(planned);
            for (int layer = 0; layer < Math.min(STAGES, layers); layer++) {
                bringBack(layer);
            }
        }
    }

    private void bringBack(int layer) {
        if (carried()) {
            returning.forEachRun((host, slot, blocks) -> back.upload(
                    incoming,
                    carriedOffset(layer, slot),
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
                hostBlocks.address() + carriedOffset(layer, 0),
                0L,
                0L,
                moves.address(),
                1);
        moves.sum(stream, pools.stage(layer), 0, layer, 1);
    }

    private long carriedOffset(int layer, int slot) {
        return (layer % STAGES * carriedBlocks + slot) * hostBlockBytes;
    }

    /**
     * After the attention of the layer before, whose K and V leave, so that its staging may take the layer after this;
     * and before the layer's own K and V are written.
     */
    void between(Stream stream, int layer) {
        if (!any()) {
            return;
        }
        if (layer > 0) {
            stream.record(attended);
            leave(layer - 1);
        }
        if (layer > 0 && layer + 1 < layers && returns()) {
            back.waitFor(free[(layer - 1) % STAGES]);
            bringBack(layer + 1);
        }
        if (layer >= STAGES && layer < layers) {
            stream.waitFor(free[layer % STAGES]);
        }
        if (layer < layers && returns()) {
            stream.waitFor(returned[layer % STAGES]);
        }
    }

    private void leave(int layer) {
        out.waitFor(attended);
        if (carried()) {
            convert(out, kernels.moveOut, layer, outgoing, leaving);
            out.record(free[layer % STAGES]);
            leaving.forEachRun((host, slot, blocks) -> out.download(
                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                    outgoing,
                    carriedOffset(layer, slot),
                    blocks * hostBlockBytes));
        } else {
            pools.move(out, kernels.moveOut, pools.stage(layer), leaving, layer, 1);
            out.record(free[layer % STAGES]);
        }
    }

    /** What follows runs when everything has landed. */
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
