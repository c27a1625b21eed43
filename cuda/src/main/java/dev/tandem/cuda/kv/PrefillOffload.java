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
 * Moves a prefill's KV to the host layer by layer, while the prefill is computed. Staging holds the KV of one layer,
 * which the next layer overwrites. From a layer's attention to the next layer's store the step does not use it. In that
 * time kernels in streams of their own convert what leaves to copies in the host's format, and copies of what returns
 * to the staging, beside the step's GEMMs. The copy engine carries copies over the link while a layer is computed:
 * those of the layer before leave, and for a later chunk of a prompt, those of the earlier chunks' KV in the next layer
 * return.
 *
 * <p>Staging lies in pages that the step borrows from the pool ({@link PrefillStaging}). The first of them hold a layer
 * of the prompts, the others copies of one layer's host blocks. Without pages for copies, kernels convert and copy at
 * once, and the step waits for them.
 *
 * <p>A prompt is staged from the first block on that some group of layers holds. A group whose window begins later
 * moves its own host blocks only.
 *
 * <p>A step may be enqueued while another step's prefills leave. Its kernels and copies come after that step's end, for
 * which the stream has waited ({@link #end}).
 *
 * <p>Owned by: engine thread.
 */
public final class PrefillOffload implements AutoCloseable {
    private static final int RATIO = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;

    private final KvPools pools;
    private final Kernels kernels;
    private final PrefillStaging staging;
    private final KvLayout layout;
    private final int layers;
    private final int layersPerPage;
    private final int multiprocessors;
    private final long hostBlockBytes;
    private final long layerBlockBytes;
    /** Pages of the pool that the step has borrowed. */
    private int[] borrowed = new int[0];

    private final BlockCopyList leaving;
    private final BlockCopyList returning;
    /** Converts what leaves, then copies it. */
    private final Stream out;
    /** Copies what returns, then converts it. */
    private final Stream back;
    /** After a layer's attention. */
    private final Event attended;
    /** After the last layer's KV has left the staging. */
    private final Event moved;
    /** After all copies have left. */
    private final Event left;
    /** After the KV that the next layer needs has returned to the staging. */
    private final Event returned;
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
        this.multiprocessors = device.multiprocessors();
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.layerBlockBytes = shape.layerBlockBytes();
        int max = offloadedBlocks / RATIO + maxSequences + 1;
        this.leaving = pools.listOfLayers(max, true, "offloaded prefills");
        this.returning = pools.listOfLayers(max, false, "earlier chunks of offloaded prefills");
        this.out = device.urgentStream("offloaded prefills");
        this.back = device.urgentStream("earlier chunks of offloaded prefills");
        this.attended = device.event();
        this.moved = device.event();
        this.left = device.event();
        this.returned = device.event();
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
     * blocks, and {@code from} more. What lies behind the windows of all groups is not staged.
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
        int[] layerBlocks = new int[blocks];
        int[] numbers = new int[blocks];
        for (int i = 0; i < blocks; i++) {
            layerBlocks[i] = layerBlock(staged + i);
            numbers[i] = layerBlocks[i] + from;
        }
        List<KvView> views = new ArrayList<>(layout.groups());
        for (int group = 0; group < layout.groups(); group++) {
            move(chunk, group, behind, layerBlocks);
            views.add(new KvView(behind / ModelShape.BLOCK_TOKENS, numbers));
        }
        staged += blocks;
        return views;
    }

    /**
     * Lists what a chunk moves in the layers of a group.
     *
     * @param behind tokens of the prompt before those that are staged
     * @param layerBlocks of the staged tokens
     */
    private void move(Chunk chunk, int group, int behind, int[] layerBlocks) {
        KvView host = chunk.kv(group);
        int first = host.first() * HostFormat.BLOCK_TOKENS;
        int[] own = Arrays.copyOfRange(layerBlocks, (first - behind) / ModelShape.BLOCK_TOKENS, layerBlocks.length);
        int start = chunk.start() - first;
        leaving.section(group).add(host.blocks(), own, start, start + chunk.rows());
        returning.section(group).add(host.blocks(), own, 0, start);
    }

    /** The layer block of a staged block. */
    private int layerBlock(int block) {
        return borrowed[block / layersPerPage] * layersPerPage + block % layersPerPage;
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

    /** Lets the earlier chunks' KV of the first layer return, after {@code planned}. */
    void begin(Event planned) {
        if (returns()) {
            back.waitFor(planned);
            copyBack(0);
            returnTo(0);
        }
    }

    /** Makes the step wait until a layer may store its K and V. */
    void beforeStore(Stream stream, int layer) {
        if (returns()) {
            stream.waitFor(returned); // which comes after moved
        } else if (any() && layer > 0) {
            stream.waitFor(moved);
        }
    }

    /** Called after a layer's attention: empties the staging, and fills it with what returns for the next layer. */
    void afterAttention(Stream stream, int layer) {
        if (!any()) {
            return;
        }
        stream.record(attended);
        out.waitFor(attended);
        convert(out, kernels.moveOut, layer, leaving);
        out.record(moved);
        copyOut(layer);
        if (layer + 1 == layers) {
            out.record(left);
        } else if (returns()) {
            back.waitFor(moved); // both may touch a block that holds tokens of this chunk and of earlier ones
            returnTo(layer + 1);
        }
    }

    private void copyOut(int layer) {
        if (usesCopyEngine) {
            leaving.of(layer)
                    .forEachRun(
                            copyStep(),
                            (host, layerBlock, blocks) -> out.download(
                                    MemorySegment.ofAddress(pools.hostBlock(layer, host)),
                                    pools.gpu(),
                                    layerBlock * layerBlockBytes,
                                    blocks * hostBlockBytes));
        }
    }

    /** Converts a layer's copies, and lets those of the next layer take their place. */
    private void returnTo(int layer) {
        convert(back, kernels.moveIn, layer, returning);
        back.record(returned);
        if (layer + 1 < layers) {
            copyBack(layer + 1);
        }
    }

    private void copyBack(int layer) {
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
        }
    }

    /** Layer blocks from a copy to its neighbour; 0 where gaps lie between, so that each is copied alone. */
    private int copyStep() {
        return hostBlockBytes == RATIO * layerBlockBytes ? RATIO : 0;
    }

    /** Converts between staging and copies, or, where there are none, host blocks. */
    private void convert(Stream stream, Kernel kernel, int layer, BlockCopyList moves) {
        if (!usesCopyEngine) {
            pools.move(stream, kernel, pools.gpu().address(), moves, layer, 1);
            return;
        }
        kernel.launch(
                stream,
                multiprocessors,
                1,
                pools.gpu().address(),
                pools.gpu().address(),
                0L,
                layerBlockBytes / KvPools.WORD,
                moves.of(layer).address(),
                1);
        moves.sum(stream, pools.gpu().address(), layer, 1);
    }

    /** Makes the stream wait until all KV is on the host. */
    void end(Stream stream) {
        if (any()) {
            stream.waitFor(left);
        }
    }

    @Override
    public void close() {
        Resources.closeAll(List.of(out, back, attended, moved, left, returned, leaving, returning));
    }
}
