package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.PinnedBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.model.config.DataType;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/**
 * The bytes of KV blocks in both places and the streams between them. GPU memory holds {@code [layers][blocks]} of prelude.cu's
 * format, then two layers of staging for prompts that land on the host. Pinned host memory holds {@code [layers][blocks]} of
 * the format that the CPU attends over. Kernels convert while they copy over the link.
 *
 * <p>Order within a step: what moves out, then what moves in, a few layers at a time, before each layer writes; a prompt's layer
 * leaves its staging before the layer after next writes there; the step ends when all has arrived. Of a prompt that lands in
 * several chunks, earlier KV comes back into a layer's staging when the attention of the layer before last is done with it.
 *
 * <p>Owned by: engine thread.
 */
final class KvPools implements AutoCloseable {
    /** Layers that move at a time: the first layer of a step waits for so much. */
    private static final int LAYERS_AT_ONCE = 2;
    /** Layers of staging: one is written while the other leaves. */
    private static final int STAGES = 2;
    private static final long WORD = 4;
    /** Random words that repeat. */
    private static final int PATTERNS = 1021;
    /** Thread blocks that copy: two fill the link, and products that want whole multiprocessors get none where one copies. */
    private static final int MOST_COPY_BLOCKS = 4;
    private static final int MULTIPROCESSORS_A_COPY_BLOCK = 8;
    /** Pools below this are not worth huge pages. */
    private static final long LEAST_HUGE = 256L << 20;

    private final ModelShape shape;
    private final Kernels kernels;
    private final int layers;
    private final int gpuBlocks;
    private final int stagingBlocks;
    private final int hostBlocks;
    private final int copyBlocks;
    private final long hostBlockBytes;
    private final DeviceBuffer gpu;
    private final PinnedBuffer host;
    private final MoveList outs;
    private final MoveList ins;
    private final MoveList landings;
    private final MoveList returns;
    private final Stream swapping;
    private final Stream landing;
    private final Event planned;
    private final Event[] swapped;
    private final Event[] written = new Event[STAGES];
    private final Event[] landed = new Event[STAGES];
    private final Event[] attended = new Event[STAGES];
    private final Event[] returned = new Event[STAGES];
    private int stagingUsed;

    /** @param maxSequences most sequences that may move in a step */
    KvPools(Device device, Kernels kernels, ModelShape shape, int gpuBlocks, int stagingBlocks, long hostBytes, int maxSequences) {
        this.shape = shape;
        this.kernels = kernels;
        this.layers = shape.config().layers();
        this.gpuBlocks = gpuBlocks;
        this.stagingBlocks = stagingBlocks;
        this.hostBlockBytes = HostFormat.blockBytes(shape);
        this.hostBlocks = (int) Math.min(Integer.MAX_VALUE / HostFormat.BLOCK_TOKENS, hostBytes / (hostBlockBytes * layers));
        this.copyBlocks = Math.clamp(device.multiprocessors() / Integer.getInteger("x.copy", MULTIPROCESSORS_A_COPY_BLOCK), 1, MOST_COPY_BLOCKS);
        this.gpu = device.allocate(((long) gpuBlocks * layers + STAGES * stagingBlocks) * shape.blockBytes(), "the GPU KV pool");
        long bytes = hostBytes();
        this.host = bytes < LEAST_HUGE ? device.pinned(bytes, "the host KV pool") : device.pinnedHuge(bytes, "the host KV pool");
        int ratio = HostFormat.BLOCK_TOKENS / ModelShape.BLOCK_TOKENS;
        int most = gpuBlocks / ratio + maxSequences + 1;
        this.outs = new MoveList(device, most, "swaps out");
        this.ins = new MoveList(device, most, "swaps in");
        this.landings = new MoveList(device, stagingBlocks / ratio + maxSequences + 1, "landing prompts");
        this.returns = new MoveList(device, stagingBlocks / ratio + maxSequences + 1, "earlier chunks of landing prompts");
        this.swapping = device.stream("swaps");
        this.landing = device.stream("landing prompts");
        this.planned = device.event();
        this.swapped = new Event[(layers + LAYERS_AT_ONCE - 1) / LAYERS_AT_ONCE];
        for (int i = 0; i < swapped.length; i++) {
            swapped[i] = device.event();
        }
        for (int i = 0; i < STAGES; i++) {
            written[i] = device.event();
            landed[i] = device.event();
            attended[i] = device.event();
            returned[i] = device.event();
        }
    }

    DeviceBuffer gpu() {
        return gpu;
    }

    int hostBlocks() {
        return hostBlocks;
    }

    long hostBytes() {
        return hostBlocks * hostBlockBytes * layers;
    }

    /** Address of a host block in a layer. */
    long hostBlock(int layer, int block) {
        return host.address() + ((long) layer * hostBlocks + block) * hostBlockBytes;
    }

    /** Random values into the first blocks of every layer, for measurements: zeros would be fast. */
    void randomiseHost(int blocks, DataType type) {
        int[] patterns = new int[PATTERNS];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < PATTERNS; i++) {
            short low = HalfFloats.narrow((float) random.nextDouble(-1, 1), type);
            short high = HalfFloats.narrow((float) random.nextDouble(-1, 1), type);
            patterns[i] = low & 0xffff | high << 16;
        }
        MemorySegment source = MemorySegment.ofArray(patterns);
        IntStream.range(0, layers * blocks).parallel().forEach(i -> {
            long offset = hostBlock(i / blocks, i % blocks) - host.address();
            for (long at = 0; at < hostBlockBytes; at += source.byteSize()) {
                MemorySegment.copy(source, 0, host.memory(), offset + at, Math.min(source.byteSize(), hostBlockBytes - at));
            }
        });
    }

    /** Before a step's moves; those of the step before have run. */
    void beginStep() {
        outs.clear();
        ins.clear();
        landings.clear();
        returns.clear();
        stagingUsed = 0;
    }

    void swap(Swap swap) {
        boolean out = swap.to() == Place.HOST;
        (out ? outs : ins).add(out ? swap.toBlocks() : swap.fromBlocks(), out ? swap.fromBlocks() : swap.toBlocks(), 0, swap.tokens());
    }

    /** Staging for a prompt that lands on the host: numbers of blocks for its block table, beyond the pool's. */
    int[] stage(Chunk chunk) {
        int context = chunk.start() + chunk.rows();
        int[] blocks = new int[(context - 1) / ModelShape.BLOCK_TOKENS + 1];
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] = stagingUsed + i;
        }
        landings.add(chunk.blocks(), blocks, chunk.start(), context);
        returns.add(chunk.blocks(), blocks, 0, chunk.start());
        for (int i = 0; i < blocks.length; i++) {
            blocks[i] += gpuBlocks;
        }
        stagingUsed += blocks.length;
        return blocks;
    }

    /** What numbers of staging blocks miss of where the layer's staging is, in blocks from the layer's own. */
    int stagingShift(int layer) {
        return (layers - layer - 1) * gpuBlocks + layer % STAGES * stagingBlocks;
    }

    /** What a step moves, as far as it makes a difference to what is enqueued. */
    record Moving(boolean out, boolean in, boolean lands, boolean returns) {
        static final Moving NOTHING = new Moving(false, false, false, false);
    }

    Moving moving() {
        return new Moving(outs.count() > 0, ins.count() > 0, landings.count() > 0, returns.count() > 0);
    }

    /** Before {@link #begin}. */
    void upload(Stream stream) {
        outs.upload(stream);
        ins.upload(stream);
        landings.upload(stream);
        returns.upload(stream);
    }

    /** Enqueues the swaps; the step's layers wait for theirs. */
    void begin(Stream stream) {
        if (moving().equals(Moving.NOTHING)) {
            return;
        }
        stream.record(planned);
        if (returns.count() > 0) {
            landing.waitFor(planned);
            for (int layer = 0; layer < Math.min(STAGES, layers); layer++) {
                bringBack(layer);
            }
        }
        if (outs.count() + ins.count() == 0) {
            return;
        }
        swapping.waitFor(planned);
        for (int layer = 0; layer < layers; layer += LAYERS_AT_ONCE) {
            int count = Math.min(LAYERS_AT_ONCE, layers - layer);
            move(swapping, kernels.moveOut, gpu.address() + layer * layerBytes(), outs, layer, count);
            move(swapping, kernels.moveIn, gpu.address() + layer * layerBytes(), ins, layer, count);
            swapping.record(swapped[layer / LAYERS_AT_ONCE]);
        }
    }

    private void move(Stream stream, Kernel kernel, long from, MoveList moves, int layer, int count) {
        if (moves.count() > 0) {
            kernel.launch(
                    stream, copyBlocks, 1, from, hostBlock(layer, 0), layerBytes() / WORD, hostBlocks * hostBlockBytes / WORD,
                    moves.address(), count);
        }
    }

    private void bringBack(int layer) {
        move(landing, kernels.moveIn, stage(layer), returns, layer, 1);
        landing.record(returned[layer % STAGES]);
    }

    private long stage(int layer) {
        return gpu.address() + ((long) gpuBlocks * layers + (long) (layer % STAGES) * stagingBlocks) * shape.blockBytes();
    }

    private long layerBytes() {
        return gpuBlocks * shape.blockBytes();
    }

    /** Before the layer's K and V are written. */
    void beforeStore(Stream stream, int layer) {
        if (outs.count() + ins.count() > 0 && layer % LAYERS_AT_ONCE == 0) {
            stream.waitFor(swapped[layer / LAYERS_AT_ONCE]);
        }
        if (landings.count() > 0 && layer >= STAGES) {
            stream.waitFor(landed[layer % STAGES]);
        }
        if (returns.count() > 0) {
            stream.waitFor(returned[layer % STAGES]);
        }
    }

    /** The layer's K and V are written: prompts in staging leave. */
    void afterStore(Stream stream, int layer) {
        if (landings.count() == 0) {
            return;
        }
        stream.record(written[layer % STAGES]);
        landing.waitFor(written[layer % STAGES]);
        move(landing, kernels.moveOut, stage(layer), landings, layer, 1);
        landing.record(landed[layer % STAGES]);
    }

    /** The layer's attention is done: its staging may take the layer after next. */
    void afterAttention(Stream stream, int layer) {
        if (returns.count() == 0 || layer + STAGES >= layers) {
            return;
        }
        stream.record(attended[layer % STAGES]);
        landing.waitFor(attended[layer % STAGES]);
        bringBack(layer + STAGES);
    }

    /** What follows runs when everything has arrived. */
    void end(Stream stream) {
        if (landings.count() > 0) {
            for (Event event : landed) {
                stream.waitFor(event);
            }
        }
        if (outs.count() + ins.count() > 0) {
            stream.waitFor(swapped[swapped.length - 1]);
        }
    }

    @Override
    public void close() {
        swapping.close();
        landing.close();
        gpu.close();
        host.close();
        outs.close();
        ins.close();
        landings.close();
        returns.close();
        planned.close();
        for (Event event : swapped) {
            event.close();
        }
        for (int i = 0; i < STAGES; i++) {
            written[i].close();
            landed[i].close();
            attended[i].close();
            returned[i].close();
        }
    }
}
