package dev.tandem.cuda.kernels;

import dev.tandem.cuda.ModelShape;
import dev.tandem.cuda.device.CudaModule;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Kernel;
import java.util.ArrayList;
import java.util.List;
import java.util.SequencedMap;
import java.util.LinkedHashMap;
import java.util.stream.IntStream;

/**
 * Every kernel, compiled for one device and one model. Grids and arguments are documented in the sources.
 *
 * <p>Closing unloads them. Owned by: the executor.
 */
public final class Kernels implements AutoCloseable {
    /** Row counts of {@code skinny.cu}, in tiles of 8. */
    public static final List<Integer> TILES = List.of(1, 2, 3, 4, 6, 8);
    /** Most rows of a skinny product. */
    public static final int SKINNY_ROWS = 8 * TILES.getLast();
    /** Parts of a row's argmax; sample.cu. */
    public static final int ARGMAX_PARTS = 16;
    /** Compute capability with tensor copy engine and programmatic launches. */
    private static final int COPY_ENGINE = 90;
    /** Ring of stream.cu: two blocks share a multiprocessor's 228 KiB. */
    private static final int RING_BYTES = 110 << 10;
    private static final int SKINNY_CHUNK_BYTES = 8 * 32 * 16;

    private record Unit(String source, List<String> defines) {}

    private final List<CudaModule> modules = new ArrayList<>();
    public final Kernel embed;
    public final Kernel addNorm;
    public final Kernel ropeStore;
    public final Kernel swiglu;
    public final Kernel copyBlocks;
    public final Kernel decodeAttention;
    public final Kernel prefillAttention;
    public final Kernel argmax;
    public final Kernel sample;
    public final Kernel randomFill;
    private final SequencedMap<Integer, Kernel> stream = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> streamSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinny = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinnySwiglu = new LinkedHashMap<>();

    public Kernels(Device device, ModelShape shape, KernelCompiler compiler) {
        List<Unit> units = new ArrayList<>();
        for (String source : List.of("rows", "decode", "prefill", "sample")) {
            units.add(new Unit(source, shape.defines(device.sharedMemoryPerBlock())));
        }
        for (int tiles : TILES) {
            List<String> defines = new ArrayList<>(shape.defines(device.sharedMemoryPerBlock()));
            defines.add("-DTILES=" + tiles);
            units.add(new Unit("skinny", defines));
        }
        boolean copyEngine = device.capability() >= COPY_ENGINE;
        for (int tiles : copyEngine ? TILES : List.<Integer>of()) {
            List<String> defines = new ArrayList<>(shape.defines(device.sharedMemoryPerBlock()));
            defines.add("-DTILES=" + tiles);
            defines.add("-DSTAGES_OF_RING=" + RING_BYTES / stageBytes(tiles));
            units.add(new Unit("stream", defines));
        }
        byte[][] cubins = new byte[units.size()][];
        IntStream.range(0, cubins.length).parallel().forEach(i -> cubins[i] =
                compiler.cubin(units.get(i).source(), device.capability(), units.get(i).defines()));
        for (int i = 0; i < cubins.length; i++) {
            modules.add(device.module(cubins[i], "kernels of " + units.get(i).source()));
        }
        CudaModule rows = modules.get(0);
        embed = rows.waitingKernel("embed", 256, 0);
        addNorm = rows.waitingKernel("add_norm", Math.min(1024, shape.hidden() / 4 + 31 & ~31), 0);
        ropeStore = rows.waitingKernel("rope_store", 128, 0);
        swiglu = rows.waitingKernel("swiglu", 256, 0);
        copyBlocks = rows.kernel("copy_blocks", 256, 0);
        decodeAttention = modules.get(1).waitingKernel("decode_attention", shape.decodeWarps() * 32, 0);
        prefillAttention = modules.get(2)
                .waitingKernel("prefill_attention", 256, shape.prefillStages(device.sharedMemoryPerBlock()) * shape.stageBytes());
        argmax = modules.get(3).waitingKernel("argmax", 256, 0);
        randomFill = rows.kernel("random_fill", 256, 0);
        sample = modules.get(3).waitingKernel("sample", 1024, 0);
        for (int i = 0; i < TILES.size(); i++) {
            int shared = 2 * SKINNY_CHUNK_BYTES * TILES.get(i);
            skinny.put(TILES.get(i), modules.get(4 + i).waitingKernel("skinny", 256, shared));
            skinnySwiglu.put(TILES.get(i), modules.get(4 + i).waitingKernel("skinny_swiglu", 256, shared));
        }
        for (int i = 0; copyEngine && i < TILES.size(); i++) {
            int tiles = TILES.get(i);
            int shared = RING_BYTES / stageBytes(tiles) * stageBytes(tiles);
            CudaModule module = modules.get(4 + TILES.size() + i);
            stream.put(tiles, module.waitingKernel("stream_plain", 160, shared));
            streamSwiglu.put(tiles, module.waitingKernel("stream_swiglu", 160, shared));
        }
    }

    /** A stage of stream.cu: 128 rows of weights and the rows of x, 64 columns each. */
    private static int stageBytes(int tiles) {
        return 128 * (128 + 8 * tiles);
    }

    /** Whether there are product kernels that use the tensor copy engine. */
    public boolean streams() {
        return !stream.isEmpty();
    }

    /** Product kernel of stream.cu. */
    public Kernel stream(int rows) {
        return stream.get(tiles(rows));
    }

    public Kernel streamSwiglu(int rows) {
        return streamSwiglu.get(tiles(rows));
    }

    /** Product kernel for at most {@link #SKINNY_ROWS} rows. */
    public Kernel skinny(int rows) {
        return skinny.get(tiles(rows));
    }

    /** Product kernel with the activation of gate and up. */
    public Kernel skinnySwiglu(int rows) {
        return skinnySwiglu.get(tiles(rows));
    }

    /** The least number of tiles of 8 rows that there is a kernel for. */
    public static int tiles(int rows) {
        for (int tiles : TILES) {
            if (rows <= 8 * tiles) {
                return tiles;
            }
        }
        throw new IllegalArgumentException(rows + " rows are more than " + SKINNY_ROWS);
    }

    @Override
    public void close() {
        modules.forEach(CudaModule::close);
    }
}
