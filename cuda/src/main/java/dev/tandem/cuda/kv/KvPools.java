package dev.tandem.cuda.kv;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.weights.HalfFloats;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.step.Chunk;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/**
 * The KV pages of both tiers and the copies between them; a page is a block of tokens in the layers of one group
 * ({@link KvLayout}). GPU memory holds {@code [pages][layers of a group]} of prelude.cu's format: a page is contiguous,
 * so that a step can borrow it as staging for any layers. Pinned host memory holds {@code [layers of a group][pages]}
 * of the format that the CPU attends over. Kernels convert the format while they copy over the link.
 *
 * <p>Order within a step: swaps out, then swaps in, a few layers of every page at a time, each before such a layer
 * writes KV. Pages are swapped whatever their group, because a plan may grant what one group vacates to another. An
 * offloaded prefill's layer leaves its staging before the layer after next writes there ({@link PrefillOffload}). The
 * step ends when all copies have arrived.
 *
 * <p>Owned by: engine thread.
 */
public final class KvPools implements AutoCloseable {
    /**
     * Layers of a page per copy, but for the first copy, which moves one: a step's first layer waits for it. The median
     * first token of conversations is 1.2 % sooner than with two (docs/performance/prefix-cache.md).
     */
    private static final int LAYERS_AT_ONCE = 2;
    /**
     * Max references per GPU block on average, beyond the first; a hundred sequences over a prefix of a thirtieth of
     * the pool have 3.
     */
    private static final int MAX_SHARERS = 4;

    static final long WORD = 4;
    /** All bits set, which is NaN in both types. */
    private static final int NAN = -1;
    /** Number of random words, which the fill repeats. */
    private static final int PATTERNS = 1021;
    /**
     * Max thread blocks that copy. Two saturate the link; GEMMs that need whole multiprocessors cannot use one on which
     * a block copies.
     */
    private static final int MAX_COPY_BLOCKS = 4;

    private static final int SMS_PER_COPY_BLOCK = 4;
    /** Pools below this are not worth huge pages. */
    private static final long MIN_HUGE = 256L << 20;

    private final Device device;
    private final boolean checksums;
    private final ModelShape shape;
    private final Kernels kernels;
    private final KvLayout layout;
    private final int layers;
    private final int layersPerPage;
    private final int gpuBlocks;
    private final int hostBlocks;
    private final int copyBlocks;
    private final long hostBlockBytes;
    private final DeviceBuffer gpu;
    private final PinnedBuffer host;
    private final BlockCopyList outs;
    private final BlockCopyList ins;
    private final PrefillOffload prefillOffload;
    private final Stream swapping;
    private final Event planned;
    private final Event[] swapped;

    /**
     * @param layout the groups of layers
     * @param gpuBlocks blocks of all layers, each of a page per group
     * @param offloadedBlocks max blocks of the prefills that a step offloads
     * @param maxSequences max sequences that move in a step
     * @param checksums whether checksums are compared on both sides of every move
     */
    public KvPools(
            Device device,
            Kernels kernels,
            ModelShape shape,
            KvLayout layout,
            int gpuBlocks,
            int offloadedBlocks,
            long hostBytes,
            int maxSequences,
            boolean checksums) {
        this.device = device;
        this.checksums = checksums;
        this.shape = shape;
        this.kernels = kernels;
        this.layout = layout;
        this.layers = shape.config().layers();
        this.layersPerPage = shape.layersPerPage();
        this.gpuBlocks = gpuBlocks;
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.hostBlocks = hostBlocks(shape, layout, hostBytes);
        this.copyBlocks = Math.clamp(device.multiprocessors() / SMS_PER_COPY_BLOCK, 1, MAX_COPY_BLOCKS);
        this.gpu = device.allocate(gpuBlocks * shape.blockBytes(), "the GPU KV pool");
        long bytes = hostBytes();
        this.host = bytes < MIN_HUGE
                ? device.pinned(bytes, "the host KV pool")
                : device.pinnedHuge(bytes, "the host KV pool");
        int ratio = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;
        int sequences = maxSequences + 1;
        BlockCopyList.Parts ofPages = new BlockCopyList.Parts(layersPerPage, 1, any -> 0, this::hostPart);
        this.outs = copyList(ofPages, maxSwapsOut(hostPages()), true, false, "swaps out");
        this.ins = copyList(ofPages, pages() / ratio + sequences * layout.groups(), false, false, "swaps in");
        this.prefillOffload = new PrefillOffload(device, kernels, this, shape, offloadedBlocks, maxSequences);
        this.swapping = device.stream("swaps");
        this.planned = device.event();
        this.swapped = new Event[copyOf(layersPerPage - 1) + 1];
        for (int i = 0; i < swapped.length; i++) {
            swapped[i] = device.event();
        }
    }

    /**
     * Max references to GPU pages beyond the first of each. A page takes 4 bytes per reference in each step buffer, of
     * the tens of KiB or more of its KV.
     */
    public static long sharedPages(long pages) {
        return MAX_SHARERS * pages;
    }

    private static int hostBlocks(ModelShape shape, KvLayout layout, long hostBytes) {
        long blockBytes = HostFormat.blockBytes(shape) * shape.config().layers();
        return (int) Math.min(Integer.MAX_VALUE / HostFormat.BLOCK_TOKENS / layout.groups(), hostBytes / blockBytes);
    }

    /** Max pages that a step copies to the host: each has a host page of its own. */
    private static int maxSwapsOut(int hostPages) {
        return Math.max(1, hostPages);
    }

    /**
     * GPU memory that the list of copies to the host takes. It grows with host memory, so no reserve covers it: 256 MiB
     * for 1 TiB of pages of 128 KiB. All other lists are bounded by the GPU's pages and by what a step computes.
     *
     * @param hostBytes memory of the host pool
     */
    public static long swapOutListBytes(ModelShape shape, KvLayout layout, long hostBytes) {
        return BlockCopyList.bytes(1, maxSwapsOut(hostBlocks(shape, layout, hostBytes) * layout.groups()));
    }

    /** Bytes of GPU memory that the lists of copies take. */
    public long listBytes() {
        return outs.bytes() + ins.bytes() + prefillOffload.listBytes();
    }

    /**
     * A list of steps that are planned ahead.
     *
     * @param max moves in a step, of each group
     */
    BlockCopyList listOfLayers(int max, boolean toHost, String label) {
        return copyList(
                new BlockCopyList.Parts(layers, layout.groups(), layout::groupOf, this::hostBlock),
                max,
                toHost,
                true,
                label);
    }

    private BlockCopyList copyList(BlockCopyList.Parts parts, int max, boolean toHost, boolean ahead, String label) {
        BlockCopyList list = new BlockCopyList(device, parts, max, ahead, label);
        if (checksums) {
            list.check(new TransferChecksums(device, kernels, shape, parts.count(), max, toHost, label));
        }
        return list;
    }

    /** The groups of layers. */
    public KvLayout layout() {
        return layout;
    }

    public PrefillOffload prefillOffload() {
        return prefillOffload;
    }

    public DeviceBuffer gpu() {
        return gpu;
    }

    /** Blocks of all layers in GPU memory. */
    public int gpuBlocks() {
        return gpuBlocks;
    }

    /** Pages in GPU memory. */
    public int pages() {
        return Math.multiplyExact(gpuBlocks, layout.groups());
    }

    /** Address of a layer's part of the first GPU page. */
    public long layer(int layer) {
        return gpuPart(layout.indexOf(layer));
    }

    /** Address of the first page's layer of an index. */
    private long gpuPart(int index) {
        return gpu.address() + index * shape.layerBlockBytes();
    }

    /** Blocks of all layers in host memory. */
    public int hostBlocks() {
        return hostBlocks;
    }

    private int hostPages() {
        return hostBlocks * layout.groups();
    }

    public long hostBytes() {
        return hostBlocks * hostBlockBytes * layers;
    }

    /** Address of a layer's part of a host page. */
    public long hostBlock(int layer, int page) {
        return hostPart(layout.indexOf(layer), page);
    }

    /** Address of a host page's layer of an index. */
    private long hostPart(int index, int page) {
        return host.address() + ((long) index * hostPages() + page) * hostBlockBytes;
    }

    /** Writes random values into the first blocks of all layers, for measurements; zeros would make these too fast. */
    public void randomiseHost(int blocks, DataType type) {
        int[] patterns = new int[PATTERNS];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < PATTERNS; i++) {
            short low = HalfFloats.narrow((float) random.nextDouble(-1, 1), type);
            short high = HalfFloats.narrow((float) random.nextDouble(-1, 1), type);
            patterns[i] = low & 0xffff | high << 16;
        }
        MemorySegment source = MemorySegment.ofArray(patterns);
        int filled = blocks * layout.groups();
        IntStream.range(0, layersPerPage * filled).parallel().forEach(i -> {
            long offset = hostPart(i / filled, i % filled) - host.address();
            for (long at = 0; at < hostBlockBytes; at += source.byteSize()) {
                MemorySegment.copy(
                        source, 0, host.memory(), offset + at, Math.min(source.byteSize(), hostBlockBytes - at));
            }
        });
    }

    /** For tests: fills a page's first layer with NaN, as if its sequence's hidden state had overflowed. */
    public void poison(Stream stream, int page) {
        stream.fill(gpu, (long) page * layersPerPage * shape.layerBlockBytes(), shape.layerBlockBytes(), NAN);
    }

    /** For tests: fills every host block with NaN. */
    public void poisonHost() {
        host.memory().fill((byte) NAN);
    }

    /**
     * Starts a step's lists of moves. Swaps of the step before have run; its prefill offload may still run, where
     * {@link #offloadsAhead}.
     *
     * @param staging pages of the pool that the step may use for prefills that it offloads
     */
    public void beginStep(List<Swap> swaps, int[] staging) {
        outs.clear();
        ins.clear();
        prefillOffload.beginStep(staging);
        swaps.forEach(this::add);
    }

    private void add(Swap swap) {
        boolean out = swap.to() == KvTier.HOST;
        (out ? outs : ins)
                .section(0)
                .add(
                        out ? swap.toBlocks() : swap.fromBlocks(),
                        layerBlocks(out ? swap.fromBlocks() : swap.toBlocks()),
                        0,
                        swap.tokens());
    }

    private int[] layerBlocks(int[] pages) {
        int[] numbers = new int[pages.length];
        for (int i = 0; i < pages.length; i++) {
            numbers[i] = pages[i] * layersPerPage;
        }
        return numbers;
    }

    /**
     * Whether a step may be enqueued while one that offloads prefills runs, or such a step while another runs. Copies
     * follow the order of the GPU's steps. Checksums do not: host blocks are summed before and after a step, when no
     * other may write them.
     */
    public boolean offloadsAhead() {
        return !checksums;
    }

    /** Places an offloaded prefill in the staging; returns the numbers for its block table in each group. */
    public List<KvView> stage(Chunk chunk) {
        return prefillOffload.stage(chunk, pages());
    }

    /**
     * What the layer's kernels add to numbers of staging from {@link #pages} on, so that they count layer blocks from
     * the layer's first.
     */
    public int stagingShift(int layer) {
        return -layout.indexOf(layer) - pages();
    }

    /** Which kinds of swap a step has, as far as these change the launches. */
    public record Moving(boolean out, boolean in) {
        public static final Moving NOTHING = new Moving(false, false);
    }

    /** The swaps of the current step. */
    public Moving moving() {
        return new Moving(!outs.isEmpty(), !ins.isEmpty());
    }

    /** Uploads the step's lists of moves, before {@link #begin}. */
    public void upload(Stream stream) {
        ins.beginSums();
        prefillOffload.beginSums(!outs.isEmpty());
        outs.upload(stream);
        ins.upload(stream);
        prefillOffload.upload(stream);
    }

    /** Enqueues the swaps; the step's layers wait for theirs. */
    public void begin(Stream stream) {
        if (!prefillOffload.any() && moving().equals(Moving.NOTHING)) {
            return;
        }
        stream.record(planned);
        if (swaps()) {
            beginSwaps();
        }
        // a prefill may return tokens that this step copies to the host, as the cached prefix of its prompt
        boolean returnsCopied = !outs.isEmpty() && prefillOffload.returns();
        prefillOffload.begin(returnsCopied ? swapped[swapped.length - 1] : planned);
    }

    private boolean swaps() {
        return !outs.isEmpty() || !ins.isEmpty();
    }

    private void beginSwaps() {
        swapping.waitFor(planned);
        int index = 0;
        for (int copy = 0; copy < swapped.length; copy++) {
            int end = Math.min(copy * LAYERS_AT_ONCE + 1, layersPerPage);
            move(swapping, kernels.moveOut, gpuPart(index), outs, index, end - index);
            move(swapping, kernels.moveIn, gpuPart(index), ins, index, end - index);
            swapping.record(swapped[copy]);
            index = end;
        }
    }

    /** The copy that moves a page's layer of an index. */
    private static int copyOf(int index) {
        return Math.ceilDiv(index, LAYERS_AT_ONCE);
    }

    /** Whether no layer before has waited for the copy that moves this layer. */
    private boolean waitsFirst(int layer) {
        for (int before = 0; before < layer; before++) {
            if (copyOf(layout.indexOf(before)) == copyOf(layout.indexOf(layer))) {
                return false;
            }
        }
        return true;
    }

    /**
     * Copies {@code count} parts, {@code part} first; layer blocks are counted from the address {@code from}. A section
     * without moves copies nothing, so that a graph fits all lists that have any.
     */
    void move(Stream stream, Kernel kernel, long from, BlockCopyList moves, int part, int count) {
        if (!moves.isEmpty()) {
            kernel.launch(
                    stream,
                    copyBlocks,
                    1,
                    from,
                    moves.parts().host().address(part, 0),
                    hostPages() * hostBlockBytes / WORD,
                    hostBlockBytes / WORD,
                    moves.of(part).address(),
                    count);
            moves.sum(stream, from, part, count);
        }
    }

    /**
     * Makes the stream wait for the copies of a layer before it stores its K and V. The caller enqueues it after the
     * layer's QKV projection.
     */
    public void beforeStore(Stream stream, int layer) {
        if (swaps() && waitsFirst(layer)) {
            stream.waitFor(swapped[copyOf(layout.indexOf(layer))]);
        }
        prefillOffload.beforeStore(stream, layer);
    }

    /** Lets the KV of offloaded prefills leave after a layer's attention, and that of the next layer return. */
    public void afterAttention(Stream stream, int layer) {
        prefillOffload.afterAttention(stream, layer);
    }

    /** Makes the stream wait until all copies have arrived. */
    public void end(Stream stream) {
        prefillOffload.end(stream);
        if (swaps()) {
            stream.waitFor(swapped[swapped.length - 1]);
        }
    }

    /**
     * Compares the checksums of the step that has ended.
     *
     * @throws ExecutorException when a checksum differs; only with checksums
     */
    public void verify() {
        outs.verifySums();
        ins.verifySums();
        prefillOffload.verifySums();
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>(List.of(swapping, prefillOffload, gpu, host, outs, ins, planned));
        all.addAll(List.of(swapped));
        Resources.closeAll(all);
    }
}
