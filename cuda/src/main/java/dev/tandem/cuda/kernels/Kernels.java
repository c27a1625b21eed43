package dev.tandem.cuda.kernels;

import dev.tandem.cuda.ModelShape;
import dev.tandem.cuda.device.CudaModule;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import java.util.ArrayList;
import java.util.Iterator;
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
    /** rows.cu. */
    static final int MOVE_THREADS = 512;
    static final int CLOSE_UP_THREADS = 128;
    static final int ROPE_THREADS = 128;
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
    private final SequencedMap<Integer, Integer> streamBlocks = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinny = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> skinnySwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> broad = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> broadSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> tallSwiglu = new LinkedHashMap<>();
    private final Optional<Kernel> manySwiglu;

    /** A source's machine code, loaded. */
    private record Loaded(KernelCatalogue.Unit unit, CudaModule module) {
        Kernel kernel(String name) {
            KernelCatalogue.Entry entry = unit.entry(name);
            return entry.waits()
                    ? module.waitingKernel(name, entry.threads(), entry.sharedBytes())
                    : module.kernel(name, entry.threads(), entry.sharedBytes());
        }
    }

    /** @throws CudaException when the kernels do not compile for the device */
    public Kernels(Device device, ModelShape shape, KernelCompiler compiler) {
        KernelCatalogue.require(device.capability());
        List<KernelCatalogue.Unit> units =
                KernelCatalogue.units(shape, device.capability(), device.sharedMemoryPerBlock());
        byte[][] cubins = new byte[units.size()][];
        IntStream.range(0, cubins.length).parallel().forEach(i -> cubins[i] =
                compiler.cubin(units.get(i).source(), device.capability(), units.get(i).defines()));
        List<Loaded> loaded = new ArrayList<>();
        for (int i = 0; i < cubins.length; i++) {
            CudaModule module = device.module(cubins[i], "kernels of " + units.get(i).source());
            modules.add(module);
            loaded.add(new Loaded(units.get(i), module));
        }
        Iterator<Loaded> next = loaded.iterator();
        Loaded rows = next.next();
        embed = rows.kernel("embed");
        fewRows = device.multiprocessors() / NORM_MULTIPROCESSORS;
        addNormFew = new Norm(rows.kernel("add_norm_few"), 1);
        addNorm = new Norm(rows.kernel("add_norm"), KernelCatalogue.normBlocks(device.capability()));
        addNormMany = new Norm(rows.kernel("add_norm_many"), 1);
        closeUp = rows.kernel("close_up");
        ropeStore = rows.kernel("rope_store");
        swiglu = rows.kernel("swiglu");
        moveOut = rows.kernel("move_out");
        moveIn = rows.kernel("move_in");
        sumMoved = rows.kernel("sum_moved");
        randomFill = rows.kernel("random_fill");
        decodeAttention = next.next().kernel("decode_attention");
        prefill = KernelCatalogue.prefill(shape, device.capability(), device.sharedMemoryPerBlock());
        prefillAttention = next.next().kernel("prefill_attention");
        Loaded sampling = next.next();
        argmax = sampling.kernel("argmax");
        sample = sampling.kernel("sample");
        adjust = sampling.kernel("adjust");
        logprobs = sampling.kernel("logprobs");
        Loaded flights = next.next();
        courier = flights.kernel("courier");
        depart = flights.kernel("depart");
        collect = flights.kernel("collect");
        report = flights.kernel("report");
        for (int tiles : TILES) {
            Loaded unit = next.next();
            skinny.put(tiles, unit.kernel("skinny"));
            skinnySwiglu.put(tiles, unit.kernel("skinny_swiglu"));
        }
        for (int tiles : device.capability() >= KernelCatalogue.COPY_ENGINE ? TILES : List.<Integer>of()) {
            Loaded unit = next.next();
            stream.put(tiles, unit.kernel("stream_plain"));
            streamBlocks.put(tiles, stream.get(tiles).residentBlocks());
            streamSwiglu.put(tiles, unit.kernel("stream_swiglu"));
        }
        for (int most : device.capability() == KernelCatalogue.WARP_GROUPS ? BROAD_ROWS : List.<Integer>of()) {
            Loaded unit = next.next();
            broad.put(most, unit.kernel("broad_plain"));
            broadSwiglu.put(most, unit.kernel("broad_swiglu"));
            if (most >= KernelCatalogue.LEAST_TALL_ROWS) {
                tallSwiglu.put(most, unit.kernel("broad_swiglu_tall"));
            }
        }
        manySwiglu = device.capability() == KernelCatalogue.WARP_GROUPS
                ? Optional.of(next.next().kernel("many_swiglu"))
                : Optional.empty();
    }

    /** What adds up the partial sums of so many rows, and takes their norm. */
    public Norm addNorm(int rows) {
        return rows <= fewRows ? addNormFew : addNorm;
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

    /** Thread blocks of {@link #stream} that a multiprocessor holds at a time: two on 9.0, one where it has 100 KiB of shared memory. */
    public int streamBlocks(int rows) {
        return streamBlocks.get(tiles(rows));
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
