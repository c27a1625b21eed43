package dev.tandem.cuda.kernels;

import dev.tandem.cuda.ModelShape;
import dev.tandem.cuda.device.CudaModule;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
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
    /** Row counts of {@code broad.cu}. */
    public static final List<Integer> BROAD_ROWS = List.of(32, 64, 96, 128, 160, 192);
    /** Parts of a row's argmax; sample.cu. */
    public static final int ARGMAX_PARTS = 16;
    private static final int SKINNY_CHUNK_BYTES = 8 * 32 * 16;
    /** rows.cu. */
    private static final int MOVE_THREADS = 512;
    private static final int CLOSE_UP_THREADS = 128;
    private static final int ROPE_THREADS = 128;
    /** {@code add_norm_few} takes a whole multiprocessor a row; measured on an H200 with up to 24 rows and from 64 on. */
    private static final int NORM_MULTIPROCESSORS = 4;

    /**
     * An RMS norm of rows.cu.
     *
     * @param blocks that share a row
     */
    public record Norm(Kernel kernel, int blocks) {}

    private final List<CudaModule> modules = new ArrayList<>();
    public final Kernel embed;
    private final int fewRows;
    public final Norm addNormFew;
    public final Norm addNorm;
    public final Norm addNormMany;
    public final Kernel closeUp;
    public final Kernel ropeStore;
    public final Kernel swiglu;
    public final Kernel moveOut;
    public final Kernel moveIn;
    public final Kernel sumMoved;
    public final Kernel decodeAttention;
    public final Kernel prefillAttention;
    public final Kernel argmax;
    public final Kernel sample;
    public final Kernel adjust;
    public final Kernel logprobs;
    public final Kernel courier;
    public final Kernel depart;
    public final Kernel collect;
    public final Kernel report;
    public final Kernel randomFill;
    private final KernelCatalogue.Prefill prefill;
    private final SequencedMap<Integer, Kernel> stream = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> streamSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinny = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinnySwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> broad = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> broadSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> tallSwiglu = new LinkedHashMap<>();
    private final Optional<Kernel> manySwiglu;

    public Kernels(Device device, ModelShape shape, KernelCompiler compiler) {
        List<KernelCatalogue.Unit> units =
                KernelCatalogue.units(shape, device.capability(), device.sharedMemoryPerBlock());
        byte[][] cubins = new byte[units.size()][];
        IntStream.range(0, cubins.length).parallel().forEach(i -> cubins[i] =
                compiler.cubin(units.get(i).source(), device.capability(), units.get(i).defines()));
        for (int i = 0; i < cubins.length; i++) {
            modules.add(device.module(cubins[i], "kernels of " + units.get(i).source()));
        }
        CudaModule rows = modules.get(0);
        embed = rows.waitingKernel("embed", 256, 0);
        fewRows = device.multiprocessors() / NORM_MULTIPROCESSORS;
        int quads = shape.hidden() / 4;
        addNormFew = new Norm(rows.waitingKernel("add_norm_few", threads(quads, 1024), 0), 1);
        int blocks = device.capability() >= KernelCatalogue.CLUSTERS ? 2 : 1;
        addNorm = new Norm(rows.waitingKernel("add_norm", threads((quads + blocks - 1) / blocks, 1024 / blocks), 0), blocks);
        addNormMany = new Norm(rows.waitingKernel("add_norm_many", threads(quads / 2, 256), 0), 1);
        closeUp = rows.waitingKernel("close_up", CLOSE_UP_THREADS, 0);
        ropeStore = rows.waitingKernel("rope_store", ROPE_THREADS, 0);
        swiglu = rows.waitingKernel("swiglu", 256, 0);
        moveOut = rows.kernel("move_out", MOVE_THREADS, 0);
        moveIn = rows.kernel("move_in", MOVE_THREADS, 0);
        sumMoved = rows.kernel("sum_moved", 256, 0);
        decodeAttention = modules.get(1).waitingKernel("decode_attention", shape.decodeWarps() * 32, 0);
        prefill = KernelCatalogue.prefill(shape, device.capability(), device.sharedMemoryPerBlock());
        prefillAttention = modules.get(2).waitingKernel("prefill_attention", prefill.threads(), prefill.stages() * shape.stageBytes());
        argmax = modules.get(3).waitingKernel("argmax", 256, 0);
        randomFill = rows.kernel("random_fill", 256, 0);
        courier = modules.get(4).kernel("courier", 256, 0);
        depart = modules.get(4).kernel("depart", 128, 0);
        collect = modules.get(4).waitingKernel("collect", 128, 0);
        report = modules.get(4).waitingKernel("report", 256, 0);
        sample = modules.get(3).waitingKernel("sample", 1024, 0);
        adjust = modules.get(3).waitingKernel("adjust", 256, 0);
        logprobs = modules.get(3).waitingKernel("logprobs", 1024, 0);
        for (int i = 0; i < TILES.size(); i++) {
            int shared = 2 * SKINNY_CHUNK_BYTES * TILES.get(i);
            skinny.put(TILES.get(i), modules.get(5 + i).waitingKernel("skinny", 256, shared));
            skinnySwiglu.put(TILES.get(i), modules.get(5 + i).waitingKernel("skinny_swiglu", 256, shared));
        }
        for (int i = 0; device.capability() >= KernelCatalogue.COPY_ENGINE && i < TILES.size(); i++) {
            int tiles = TILES.get(i);
            int stage = KernelCatalogue.stageBytes(tiles);
            int shared = KernelCatalogue.RING_BYTES / stage * stage;
            CudaModule module = modules.get(5 + TILES.size() + i);
            stream.put(tiles, module.waitingKernel("stream_plain", 160, shared));
            streamSwiglu.put(tiles, module.waitingKernel("stream_swiglu", 160, shared));
        }
        for (int i = 0; device.capability() == KernelCatalogue.WARP_GROUPS && i < BROAD_ROWS.size(); i++) {
            int most = BROAD_ROWS.get(i);
            int stage = KernelCatalogue.broadStageBytes(most);
            int shared = KernelCatalogue.BROAD_RING_BYTES / stage * stage;
            CudaModule module = modules.get(5 + 2 * TILES.size() + i);
            broad.put(most, module.waitingKernel("broad_plain", 288, shared));
            broadSwiglu.put(most, module.waitingKernel("broad_swiglu", 288, shared));
            if (most >= KernelCatalogue.LEAST_TALL_ROWS) {
                int ring = KernelCatalogue.TALL_STAGES * KernelCatalogue.tallStageBytes(most);
                tallSwiglu.put(most, module.waitingKernel("broad_swiglu_tall", 512, ring));
            }
        }
        manySwiglu = device.capability() == KernelCatalogue.WARP_GROUPS
                ? Optional.of(modules.getLast().waitingKernel("many_swiglu", 384, KernelCatalogue.manyBytes()))
                : Optional.empty();
    }

    /** What adds up the partial sums of so many rows, and takes their norm. */
    public Norm addNorm(int rows) {
        return rows <= fewRows ? addNormFew : addNorm;
    }

    private static int threads(int values, int most) {
        return Math.min(most, values + 31 & ~31);
    }

    /** Whether prompts' attention can leave multiprocessors to decode attention, which then runs beside it. */
    public boolean promptsLeaveRoom() {
        return prefill.persistent();
    }

    /** Thread blocks of prefill attention for so many parts of tiles. */
    public int prefillBlocks(int parts, int multiprocessors) {
        return prefill.persistent() ? Math.min(parts, multiprocessors) : parts;
    }

    /** Thread blocks of {@link #closeUp}: a thread 16 bytes of a row's fp32 residual and of its attention result. */
    public static int closeUpBlocks(ModelShape shape) {
        int pieces = shape.hidden() / 4 + shape.queries() / 8;
        return (pieces + CLOSE_UP_THREADS - 1) / CLOSE_UP_THREADS;
    }

    /** Thread blocks a row of {@link #ropeStore}. */
    public static int ropeBlocks(ModelShape shape) {
        int threads = (shape.config().heads() + 2 * shape.config().kvHeads()) * shape.headLanes();
        return (threads + ROPE_THREADS - 1) / ROPE_THREADS;
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

    /** Whether there are product kernels whose warps multiply in groups. */
    public boolean broad() {
        return !broad.isEmpty();
    }

    /** Product kernel of broad.cu. */
    public Kernel broad(int rows) {
        return broad.get(broadRows(rows));
    }

    public Kernel broadSwiglu(int rows) {
        return broadSwiglu.get(broadRows(rows));
    }

    /** The same with blocks of 256 weight rows instead of 128; empty for few rows. */
    public Optional<Kernel> tallSwiglu(int rows) {
        return Optional.ofNullable(tallSwiglu.get(broadRows(rows)));
    }

    /** Gate, up and activation of many.cu. */
    public Optional<Kernel> manySwiglu() {
        return manySwiglu;
    }

    /** The least number of rows that broad.cu is compiled for. */
    public static int broadRows(int rows) {
        return BROAD_ROWS.stream().filter(most -> rows <= most).findFirst()
                .orElseThrow(() -> new IllegalArgumentException(rows + " rows are more than " + BROAD_ROWS.getLast()));
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
        Resources.closeAll(modules);
    }
}
