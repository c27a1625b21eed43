package dev.tandem.cuda.kernels;

import dev.tandem.cuda.device.CudaModule;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import dev.tandem.fetch.Progress;
import dev.tandem.model.config.QkNorm;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.SequencedMap;

/**
 * Every kernel, compiled for one device and one model. Grids and arguments are documented in the sources.
 *
 * <p>Closing unloads them. Owned by: the executor.
 */
public final class Kernels implements AutoCloseable {
    /** Row counts that {@code gemv.cu} is compiled for, in tiles of 8. */
    public static final List<Integer> TILES = List.of(1, 2, 3, 4, 6, 8);
    /** Max rows of {@code gemv.cu} and {@code gemv_tma.cu}. */
    public static final int GEMV_MAX_ROWS = 8 * TILES.getLast();
    /** Row counts that {@code gemm_wgmma.cu} is compiled for. */
    public static final List<Integer> WGMMA_ROWS = List.of(32, 48, 64, 96, 128, 160, 192);
    /**
     * Multiprocessors per row up to which {@code add_norm_few} is used, which takes a whole one per row. Measured on an
     * H200 with up to 24 rows and from 64 on.
     */
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
    public final Kernel compactRows;
    /** Empty unless the model has norms over all heads of q and k. */
    public final Optional<Kernel> qkScales;

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
    public final Kernel maskLogits;
    public final Kernel logprobs;
    public final Kernel score;
    public final Kernel transfer;
    public final Kernel sendInFlight;
    public final Kernel receiveInFlight;
    public final Kernel receiveHostTokens;
    public final Kernel report;
    public final Kernel randomFill;
    private final KernelCatalogue.Prefill prefill;
    private final SequencedMap<Integer, Kernel> gemvTma = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> gemvTmaSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Integer> gemvTmaBlocks = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> gemv = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> gemvSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> wgmma = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> wgmmaSwiglu = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> wgmmaTall = new LinkedHashMap<>();
    private final SequencedMap<Integer, Kernel> wgmmaSwigluTall = new LinkedHashMap<>();
    private final Optional<Kernel> gemmSwiglu;

    /** A source's machine code, loaded. */
    private record Loaded(KernelCatalogue.Unit unit, CudaModule module) {
        Kernel kernel(String name) {
            KernelCatalogue.Entry entry = unit.entry(name);
            return entry.waits()
                    ? module.waitingKernel(name, entry.threads(), entry.sharedBytes())
                    : module.kernel(name, entry.threads(), entry.sharedBytes());
        }
    }

    /**
     * Compiles and loads the kernels.
     *
     * @param progress of compilation
     * @throws CudaException when the kernels do not compile for the device
     */
    public Kernels(Device device, ModelShape shape, KernelCompiler compiler, Progress progress) {
        KernelCatalogue.require(device.capability());
        List<KernelCatalogue.Unit> units =
                KernelCatalogue.units(shape, device.capability(), device.sharedMemoryPerBlock());
        List<byte[]> cubins = compiler.cubins(units, device.capability(), progress);
        List<Loaded> loaded = new ArrayList<>();
        for (int i = 0; i < cubins.size(); i++) {
            CudaModule module =
                    device.module(cubins.get(i), "kernels of " + units.get(i).source());
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
        compactRows = rows.kernel("compact_rows");
        qkScales =
                shape.variant().qkNorm() == QkNorm.WHOLE_ROW ? Optional.of(rows.kernel("qk_scales")) : Optional.empty();
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
        maskLogits = sampling.kernel("mask_logits");
        logprobs = sampling.kernel("logprobs");
        score = sampling.kernel("score");
        Loaded hostTokens = next.next();
        transfer = hostTokens.kernel("transfer");
        sendInFlight = hostTokens.kernel("send_in_flight");
        receiveInFlight = hostTokens.kernel("receive_in_flight");
        receiveHostTokens = hostTokens.kernel("receive_host_tokens");
        report = hostTokens.kernel("report");
        for (int tiles : TILES) {
            Loaded unit = next.next();
            gemv.put(tiles, unit.kernel("gemv"));
            gemvSwiglu.put(tiles, unit.kernel("gemv_swiglu"));
        }
        for (int tiles : device.capability() >= KernelCatalogue.COPY_ENGINE ? TILES : List.<Integer>of()) {
            Loaded unit = next.next();
            gemvTma.put(tiles, unit.kernel("gemv_tma"));
            gemvTmaBlocks.put(tiles, gemvTma.get(tiles).residentBlocks());
            gemvTmaSwiglu.put(tiles, unit.kernel("gemv_tma_swiglu"));
        }
        for (int max : device.capability() == KernelCatalogue.WARP_GROUPS ? WGMMA_ROWS : List.<Integer>of()) {
            Loaded unit = next.next();
            wgmma.put(max, unit.kernel("gemm_wgmma"));
            wgmmaSwiglu.put(max, unit.kernel("gemm_wgmma_swiglu"));
            wgmmaTall.put(max, unit.kernel("gemm_wgmma_tall"));
            wgmmaSwigluTall.put(max, unit.kernel("gemm_wgmma_swiglu_tall"));
        }
        gemmSwiglu = device.capability() == KernelCatalogue.WARP_GROUPS
                ? Optional.of(next.next().kernel("gemm_swiglu"))
                : Optional.empty();
    }

    /** The kernel that adds up partial sums and computes the norm, for so many rows. */
    public Norm addNorm(int rows) {
        return rows <= fewRows ? addNormFew : addNorm;
    }

    /** Whether prefill attention can leave multiprocessors to decode attention, which then runs beside it. */
    public boolean promptsLeaveRoom() {
        return prefill.persistent();
    }

    /** Thread blocks of prefill attention for so many work units. */
    public int prefillBlocks(int units, int multiprocessors) {
        return prefill.persistent() ? Math.min(units, multiprocessors) : units;
    }

    /**
     * Thread blocks of {@link #compactRows}: one thread per 16 bytes of a row's fp32 residual and of its attention
     * output.
     */
    public static int compactRowsBlocks(ModelShape shape) {
        int pieces = shape.hidden() / 4 + shape.queries() / 8;
        return (pieces + KernelConstants.COMPACT_ROWS_THREADS - 1) / KernelConstants.COMPACT_ROWS_THREADS;
    }

    /** Thread blocks per row of {@link #ropeStore}. */
    public static int ropeBlocks(ModelShape shape) {
        int threads = (shape.config().heads() + 2 * shape.config().kvHeads()) * shape.headLanes();
        return (threads + KernelConstants.ROPE_THREADS - 1) / KernelConstants.ROPE_THREADS;
    }

    /** Whether there are GEMV kernels that use the Tensor Memory Accelerator. */
    public boolean hasTma() {
        return !gemvTma.isEmpty();
    }

    /** The kernel of gemv_tma.cu. */
    public Kernel gemvTma(int rows) {
        return compiled(gemvTma, tiles(rows));
    }

    /**
     * Thread blocks of {@link #gemvTma} that a multiprocessor holds at a time: two on 9.0, one where it has 100 KiB of
     * shared memory.
     */
    public int gemvTmaBlocks(int rows) {
        return compiled(gemvTmaBlocks, tiles(rows));
    }

    /** The kernel of gemv_tma.cu for gate and up with SwiGLU. */
    public Kernel gemvTmaSwiglu(int rows) {
        return compiled(gemvTmaSwiglu, tiles(rows));
    }

    /** The kernel of gemv.cu, for at most {@link #GEMV_MAX_ROWS} rows. */
    public Kernel gemv(int rows) {
        return compiled(gemv, tiles(rows));
    }

    /** The kernel of gemv.cu for gate and up with SwiGLU. */
    public Kernel gemvSwiglu(int rows) {
        return compiled(gemvSwiglu, tiles(rows));
    }

    /** Whether there are GEMM kernels that use warpgroup MMA. */
    public boolean wgmma() {
        return !wgmma.isEmpty();
    }

    /** The kernel of gemm_wgmma.cu. */
    public Kernel wgmma(int rows) {
        return compiled(wgmma, wgmmaRows(rows));
    }

    /** The kernel of gemm_wgmma.cu for gate and up with SwiGLU. */
    public Kernel wgmmaSwiglu(int rows) {
        return compiled(wgmmaSwiglu, wgmmaRows(rows));
    }

    /** {@link #wgmma} with thread blocks of 256 weight rows instead of 128. */
    public Kernel wgmmaTall(int rows) {
        return compiled(wgmmaTall, wgmmaRows(rows));
    }

    /** {@link #wgmmaSwiglu} with thread blocks of 256 weight rows instead of 128. */
    public Kernel wgmmaSwigluTall(int rows) {
        return compiled(wgmmaSwigluTall, wgmmaRows(rows));
    }

    /** The kernel of gemm_swiglu.cu for gate and up with SwiGLU; empty where the GPU has none. */
    public Optional<Kernel> gemmSwiglu() {
        return gemmSwiglu;
    }

    private static <T> T compiled(Map<Integer, T> kernels, int size) {
        return Objects.requireNonNull(kernels.get(size), "this GPU has no kernel of that kind");
    }

    /** The smallest row count of gemm_wgmma.cu that holds so many rows. */
    public static int wgmmaRows(int rows) {
        return WGMMA_ROWS.stream()
                .filter(max -> rows <= max)
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException(rows + " rows are more than " + WGMMA_ROWS.getLast()));
    }

    /** The smallest number of tiles with a GEMV kernel that holds so many rows. */
    public static int tiles(int rows) {
        for (int tiles : TILES) {
            if (rows <= 8 * tiles) {
                return tiles;
            }
        }
        throw new IllegalArgumentException(rows + " rows are more than " + GEMV_MAX_ROWS);
    }

    @Override
    public void close() {
        Resources.closeAll(modules);
    }
}
