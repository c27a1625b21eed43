package dev.tandem.cuda.kv;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.step.Chunk;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * Moves a prefill's KV to the host layer by layer, while the prefill is computed. The KV of each layer is written to
 * one of two staging areas, and leaves for the host before the layer after next writes there. For a later chunk of a
 * prompt, the earlier chunks' KV returns from the host into a layer's staging while the layer before is computed.
 *
 * <p>Staging lies in blocks that the step borrows from the pool ({@link PrefillStaging}). The first of them hold the
 * areas: the two layer blocks of a prompt's block are neighbours. The others hold copies of one layer's host blocks, in
 * the host's format. The copy engine carries these over the link, and kernels convert between staging and copies beside
 * it. Without blocks for copies, kernels convert and copy at once. These wait for room on a multiprocessor, and large
 * GEMMs leave none. A CUDA graph cannot contain copies that differ per step, so a step with prefill offload is one
 * graph per layer at most.
 *
 * <p>Owned by: engine thread.
 */
public final class PrefillOffload implements AutoCloseable {
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    /** Areas of one layer each: one is written while the other leaves. */
    static final int AREAS = 2;

    private final KvPools pools;
    private final Kernels kernels;
    private final PrefillStaging staging;
    private final int layers;
    private final int multiprocessors;
    private final long hostBlockBytes;
    private final long layerBlockBytes;
    /** Blocks of the pool that the step has borrowed. */
    private int[] borrowed = new int[0];

    private final BlockCopyList leaving;
    private final BlockCopyList returning;
    private final Stream out;
    private final Stream back;
    private final Event[] free = new Event[AREAS];
    private final Event attended;
    private final Event[] returned = new Event[AREAS];
    private final Event offloaded;
    /** Blocks of the step's prompts. */
    private int staged;

    private boolean usesCopyEngine;
    private boolean kernelsOnly;
    /** Whether the checksums of earlier chunks are taken after the step. */
    private boolean sumsAfterStep;

    /**
     * @param offloadedBlocks max blocks of the prefills that a step offloads
     * @param maxSequences max sequences whose prefill is offloaded in a step
     */
    PrefillOffload(
            Device device, Kernels kernels, KvPools pools, ModelShape shape, int offloadedBlocks, int maxSequences) {
        this.pools = pools;
        this.kernels = kernels;
        this.staging = shape.staging();
        this.layers = shape.config().layers();
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.layerBlockBytes = shape.layerBlockBytes();
        int max = offloadedBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.copyList(max, true, "offloaded prefills");
        this.returning = pools.copyList(max, false, "earlier chunks of offloaded prefills");
        this.out = device.urgentStream("offloaded prefills");
        this.back = device.urgentStream("earlier chunks of offloaded prefills");
        this.offloaded = device.event();
        this.attended = device.event();
        for (int i = 0; i < AREAS; i++) {
            free[i] = device.event();
            returned[i] = device.event();
        }
    }

    /** For tests: has kernels copy every prompt, as if there were no blocks for copies. */
    public void useKernels() {
        kernelsOnly = true;
    }

    void beginStep(int[] borrowedBlocks) {
        borrowed = borrowedBlocks;
        leaving.clear();
        returning.clear();
        staged = 0;
    }

    /**
     * Places a chunk in the staging; returns the numbers for its block table: those of its layer blocks in the first
     * area, and {@code from} more. What lies behind the chunk's window is not staged.
     *
     * @throws ExecutorException when the step has not borrowed enough
     */
    KvView stage(Chunk chunk, int from) {
        int behind = chunk.kv(0).first() * HostFormat.BLOCK_TOKENS;
        int start = chunk.start() - behind;
        int context = start + chunk.rows();
        int[] numbers = new int[(context - 1) / ModelShape.BLOCK_TOKENS + 1];
        if (staging.layerBlocks(staged + numbers.length) > borrowed.length) {
            throw new ExecutorException("the step offloads prompts of " + (staged + numbers.length)
                    + " blocks layer by layer, which takes " + staging.layerBlocks(staged + numbers.length)
                    + " blocks of staging, and it has " + borrowed.length + "; plan fewer");
        }
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] = layerBlock(staged + i);
        }
        leaving.add(chunk.kv(0).blocks(), numbers, start, context);
        returning.add(chunk.kv(0).blocks(), numbers, 0, start);
        for (int i = 0; i < numbers.length; i++) {
            numbers[i] += from;
        }
        staged += numbers.length;
        return new KvView(behind / ModelShape.BLOCK_TOKENS, numbers);
    }

    /** The layer block of a staged block in the first area; the next one is its layer block in the second. */
    private int layerBlock(int block) {
        int pairs = staging.pairsPerBlock();
        return borrowed[block / pairs] * layers + block % pairs * AREAS;
    }

    /** The layer block at which a copy of a host block begins. */
    private int copy(int index) {
        int copies = staging.copiesPerBlock();
        return borrowed[staging.layerBlocks(staged) + index / copies] * layers + index % copies * RATIO;
    }

    private boolean hasBlocksForCopies() {
        PrefillStaging.Need need = new PrefillStaging.Need(staged, leaving.count() + returning.count());
        return staging.copiesPerBlock() > 0 && staging.blocks(need) <= borrowed.length;
    }

    /**
     * Takes the checksums of earlier chunks before they return from the host.
     *
     * @param copiesToHost whether the step copies KV to the host, which may be what returns; its checksums are then
     *     taken after the step
     */
    void beginSums(boolean copiesToHost) {
        sumsAfterStep = copiesToHost;
        if (!sumsAfterStep) {
            returning.beginSums();
        }
    }

    void verifySums() {
        leaving.verifySums();
        if (sumsAfterStep) {
            returning.beginSums();
        }
        returning.verifySums();
    }

    boolean any() {
        return leaving.count() > 0;
    }

    boolean returns() {
        return returning.count() > 0;
    }

    void upload(Stream stream) {
        usesCopyEngine = !kernelsOnly && hasBlocksForCopies();
        if (usesCopyEngine) {
            leaving.upload(stream, this::copy);
            returning.upload(stream, index -> copy(leaving.count() + index));
        } else {
            leaving.upload(stream);
            returning.upload(stream);
        }
    }

    /** Returns the earlier chunks' KV of the first layers, after {@code planned}. */
    void begin(Event planned) {
        if (returns()) {
            back.waitFor(planned);
            for (int layer = 0; layer < Math.min(AREAS, layers); layer++) {
                returnLayer(layer);
            }
        }
    }

    private void returnLayer(int layer) {
        if (usesCopyEngine) {
            returning.forEachRun(
                    copyStep(),
                    (host, layerBlock, blocks) -> back.upload(
                            pools.gpu(),
                            layerBlock * layerBlockBytes,
                            MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                            blocks * hostBlockBytes));
            convert(back, kernels.moveIn, layer, returning);
        } else {
            pools.move(back, kernels.moveIn, area(layer), returning, layer, 1);
        }
        back.record(returned[layer % AREAS]);
    }

    /** Address from which the lists count the layer blocks of a layer's area. */
    private long area(int layer) {
        return pools.gpu().address() + layer % AREAS * layerBlockBytes;
    }

    /** Layer blocks from a copy to its neighbour; 0 where gaps lie between, so that each is copied alone. */
    private int copyStep() {
        return hostBlockBytes == RATIO * layerBlockBytes ? RATIO : 0;
    }

    private void convert(Stream stream, Kernel kernel, int layer, BlockCopyList moves) {
        kernel.launch(
                stream,
                multiprocessors,
                1,
                area(layer),
                pools.gpu().address(),
                0L,
                layerBlockBytes / KvPools.WORD,
                moves.address(),
                1);
        moves.sum(stream, area(layer), layer, 1);
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
            back.waitFor(free[(layer - 1) % AREAS]);
            returnLayer(layer + 1);
        }
        if (layer >= AREAS && layer < layers) {
            stream.waitFor(free[layer % AREAS]);
        }
        if (layer < layers && returns()) {
            stream.waitFor(returned[layer % AREAS]);
        }
    }

    private void offload(int layer) {
        out.waitFor(attended);
        if (usesCopyEngine) {
            convert(out, kernels.moveOut, layer, leaving);
            out.record(free[layer % AREAS]);
            leaving.forEachRun(
                    copyStep(),
                    (host, layerBlock, blocks) -> out.download(
                            MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                            pools.gpu(),
                            layerBlock * layerBlockBytes,
                            blocks * hostBlockBytes));
        } else {
            pools.move(out, kernels.moveOut, area(layer), leaving, layer, 1);
            out.record(free[layer % AREAS]);
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
        List<AutoCloseable> all = new ArrayList<>(List.of(out, back, offloaded, attended, leaving, returning));
        all.addAll(List.of(free));
        all.addAll(List.of(returned));
        Resources.closeAll(all);
    }
}
