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
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.step.Chunk;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Moves a prefill's KV to the host layer by layer, while the prefill is computed. The KV of each layer is written to
 * one of two staging areas, and leaves for the host before the layer after next writes there. For a later chunk of a
 * prompt, the earlier chunks' KV returns from the host into a layer's staging while the layer before is computed.
 *
 * <p>Staging lies in pages that the step borrows from the pool ({@link PrefillStaging}). The first of them hold the
 * areas: the two layer blocks of a prompt's block are neighbours, or two pages where a page has one layer. The others
 * hold copies of one layer's host blocks, in the host's format. The copy engine carries these over the link, and
 * kernels convert between staging and copies beside it. Without pages for copies, kernels convert and copy at once.
 * These wait for room on a multiprocessor, and large GEMMs leave none. A CUDA graph cannot contain copies that differ
 * per step, so a step with prefill offload is one graph per layer at most.
 *
 * <p>A prompt is staged from the first block on that some group of layers holds. A group whose window begins later
 * moves its own host blocks only.
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
    private final KvLayout layout;
    private final int layers;
    private final int layersPerPage;
    /**
     * [groups] the area of a group's layer, where it has one; else a layer adds its area to the numbers of the first.
     */
    private final int[] areas;

    private final int multiprocessors;
    private final long hostBlockBytes;
    private final long layerBlockBytes;
    /** Pages of the pool that the step has borrowed. */
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
        this.layout = pools.layout();
        this.layers = shape.config().layers();
        this.layersPerPage = shape.layersPerPage();
        this.areas = new int[layout.groups()];
        for (int layer = 0; layer < layers && layersPerPage == 1; layer++) {
            areas[layout.groupOf(layer)] = layer % AREAS;
        }
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.layerBlockBytes = shape.layerBlockBytes();
        int max = offloadedBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.listOfLayers(max, true, "offloaded prefills");
        this.returning = pools.listOfLayers(max, false, "earlier chunks of offloaded prefills");
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

    /** Bytes of GPU memory that the lists of copies take. */
    long listBytes() {
        return leaving.bytes() + returning.bytes();
    }

    void beginStep(int[] borrowedPages) {
        borrowed = borrowedPages;
        leaving.clear();
        returning.clear();
        staged = 0;
    }

    /**
     * Places a chunk in the staging; returns the numbers for its block table in each group. They are those of its layer
     * blocks in the first area, and {@code from} more. Where a page has one layer, they are pages of the area of the
     * group's layer. What lies behind the windows of all groups is not staged.
     *
     * @throws ExecutorException when the step has not borrowed enough
     */
    List<KvView> stage(Chunk chunk, int from) {
        int behind = chunk.kv(0).first() * HostFormat.BLOCK_TOKENS; // the first group holds most
        int context = chunk.start() + chunk.rows() - behind;
        int blocks = (context - 1) / ModelShape.BLOCK_TOKENS + 1;
        if (staging.layerBlocks(staged + blocks) > borrowed.length) {
            throw new ExecutorException("the step offloads prompts of " + (staged + blocks)
                    + " blocks layer by layer, which takes " + staging.layerBlocks(staged + blocks)
                    + " blocks of staging, and it has " + borrowed.length + "; plan fewer");
        }
        List<KvView> views = new ArrayList<>(areas.length);
        for (int group = 0; group < areas.length; group++) {
            int[] numbers = new int[blocks];
            for (int i = 0; i < blocks; i++) {
                numbers[i] = layerBlock(staged + i, areas[group]);
            }
            move(chunk, group, behind, numbers);
            for (int i = 0; i < blocks && layersPerPage > 1; i++) {
                numbers[i] += from;
            }
            views.add(new KvView(behind / ModelShape.BLOCK_TOKENS, numbers));
        }
        staged += blocks;
        return views;
    }

    /**
     * Lists what a chunk moves in the layers of a group.
     *
     * @param behind tokens of the prompt before those that are staged
     * @param numbers layer blocks of the staged tokens
     */
    private void move(Chunk chunk, int group, int behind, int[] numbers) {
        KvView host = chunk.kv(group);
        int first = host.first() * HostFormat.BLOCK_TOKENS;
        int[] own = Arrays.copyOfRange(numbers, (first - behind) / ModelShape.BLOCK_TOKENS, numbers.length);
        int start = chunk.start() - first;
        leaving.section(group).add(host.blocks(), own, start, start + chunk.rows());
        returning.section(group).add(host.blocks(), own, 0, start);
    }

    /** The layer block of a staged block in an area. */
    private int layerBlock(int block, int area) {
        int pairs = staging.pairsPerBlock();
        return pairs == 0
                ? borrowed[block * AREAS + area]
                : borrowed[block / pairs] * layersPerPage + block % pairs * AREAS + area;
    }

    /** The layer block at which a copy of a host block begins. */
    private int copy(int index) {
        int copies = staging.copiesPerBlock();
        return borrowed[staging.layerBlocks(staged) + index / copies] * layersPerPage + index % copies * RATIO;
    }

    private boolean hasBlocksForCopies() {
        PrefillStaging.Need need = new PrefillStaging.Need(staged, leaving.max() + returning.max());
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
        return !leaving.isEmpty();
    }

    boolean returns() {
        return !returning.isEmpty();
    }

    void upload(Stream stream) {
        usesCopyEngine = !kernelsOnly && hasBlocksForCopies();
        if (usesCopyEngine) {
            leaving.upload(stream, this::copy);
            returning.upload(stream, index -> copy(leaving.max() + index));
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
            returning
                    .of(layer)
                    .forEachRun(
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
    long area(int layer) {
        int area = layersPerPage == 1 ? 0 : layer % AREAS; // of a group with one layer, the list names the area's pages
        return pools.gpu().address() + area * layerBlockBytes;
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
                moves.of(layer).address(),
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
            leaving.of(layer)
                    .forEachRun(
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
