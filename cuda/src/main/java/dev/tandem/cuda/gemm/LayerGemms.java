package dev.tandem.cuda.gemm;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.gemm.CublasLtGemm.Result;
import dev.tandem.cuda.gemm.GemmPlan.Method;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.weights.CudaWeights;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/**
 * Launches a layer's GEMMs and the output head, by the method that a {@link GemmPlan} names.
 *
 * <p>Owned by: engine thread.
 */
public final class LayerGemms implements AutoCloseable {
    /** Weight rows of a thread block of gemv.cu. */
    private static final int GEMV_STRIP = 256;
    /** Weight rows of a thread block of gemv_tma.cu and gemm_wgmma.cu. */
    private static final int STRIP = 128;
    /**
     * Fixed cost of a thread block of gemm_wgmma.cu, in columns of weights: loading the first tiles and storing the
     * sums.
     */
    private static final int WGMMA_FIXED_COLUMNS = 512;
    /** Min rows for which gemm_wgmma.cu is measured. */
    private static final int MIN_WGMMA_ROWS = 17;
    /** Layers whose weights take turns when GEMMs are measured; together they exceed the L2 cache. */
    public static final int MEASURED_LAYERS = 4;
    /** Rows of x in a pair of tiles of gemm_swiglu.cu. */
    public static final int PAIR_ROWS = 256;
    /** Weight rows of a tile of gemm_swiglu.cu. */
    private static final int TILE_WEIGHTS = 256;
    /** Rows of results that a warpgroup of gemm_swiglu.cu stores at once. */
    private static final int PANEL_ROWS = 64;

    private record Shape(long address, long rows, int columns, int boxRows) {}

    private final Device device;
    private final Kernels kernels;
    private final CublasLtGemm library;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final DeviceBuffer logits;
    private final DeviceBuffer partials;
    private final Map<Shape, TensorMap> maps = new HashMap<>();

    /** @param logits [sampled rows, vocabulary] fp32 */
    public LayerGemms(Device device, Kernels kernels, CublasLtGemm library, CudaWeights weights, DeviceBuffer logits) {
        this.device = device;
        this.kernels = kernels;
        this.library = library;
        this.weights = weights;
        this.shape = weights.shape();
        this.logits = logits;
        long max = 0;
        for (int rows : plan().choices()) {
            for (Method method : available(rows)) {
                max = Math.max(max, (long) rows * splits(shape.qkv(), shape.hidden(), rows, method) * shape.qkv());
                max = Math.max(
                        max, (long) rows * splits(shape.hidden(), shape.queries(), rows, method) * shape.hidden());
                max = Math.max(
                        max, (long) rows * splits(shape.hidden(), shape.intermediate(), rows, method) * shape.hidden());
            }
        }
        this.partials = device.allocate(4 * max, "partial sums");
    }

    /** The plan before anything is measured: the first method that this GPU has for each number of rows. */
    public GemmPlan plan() {
        NavigableMap<Integer, Method> methods = new TreeMap<>();
        Kernels.TILES.forEach(
                tiles -> methods.put(8 * tiles, available(8 * tiles).getFirst()));
        if (kernels.wgmma()) {
            Kernels.WGMMA_ROWS.forEach(rows -> methods.putIfAbsent(rows, Method.WGMMA));
        }
        return new GemmPlan(methods, Optional.empty());
    }

    /** Whether the GPU has gemm_swiglu.cu, and the two multiprocessors that its clusters need. */
    public boolean hasGemmSwiglu() {
        return kernels.gemmSwiglu().isPresent() && gemmSwigluBlocks() > 0;
    }

    /** The methods that this GPU has for so many rows. */
    public List<Method> available(int rows) {
        List<Method> methods = new ArrayList<>();
        if (kernels.hasTma() && rows <= Kernels.GEMV_MAX_ROWS) {
            methods.add(Method.GEMV_TMA);
        }
        if (rows <= Kernels.GEMV_MAX_ROWS) {
            methods.add(Method.GEMV);
        }
        if (kernels.wgmma() && rows >= MIN_WGMMA_ROWS) {
            methods.add(Method.WGMMA);
        }
        methods.add(Method.LIBRARY);
        return methods;
    }

    /** Address of [splits][rows][width] fp32, the partial sums of the last split-K GEMM. */
    public long partials() {
        return partials.address();
    }

    public long bytes() {
        return partials.bytes();
    }

    /** Launches the QKV projection. It writes {@link #qkvSplits} partial sums, or the finished q, k and v buffer. */
    public void qkv(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        long matrix = weights.layers.get(layer).qkv();
        if (plan.finishes(rows)) {
            library.multiply(
                    stream,
                    matrix,
                    shape.qkv(),
                    shape.hidden(),
                    a.normed().address(),
                    GemmPlan.roundUp(rows),
                    a.qkv().address(),
                    Result.NARROW);
        } else {
            partials(
                    stream,
                    plan.method(rows),
                    layer,
                    matrix,
                    CudaWeights.Maps::qkv,
                    shape.qkv(),
                    shape.hidden(),
                    a.normed(),
                    rows);
        }
    }

    /** Partial sums that {@link #qkv} leaves; 0 where it finishes. */
    public int qkvSplits(GemmPlan plan, int rows) {
        return plan.finishes(rows) ? 0 : splits(shape.qkv(), shape.hidden(), rows, plan.method(rows));
    }

    /**
     * Launches the output projection. Returns the number of partial sums that it leaves; 0 where it has added the
     * result to the residual stream.
     */
    public int output(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        long matrix = weights.layers.get(layer).output();
        return !plan.finishes(rows)
                ? partials(
                        stream,
                        plan.method(rows),
                        layer,
                        matrix,
                        CudaWeights.Maps::output,
                        shape.hidden(),
                        shape.queries(),
                        a.attended(),
                        rows)
                : toResidual(stream, a, matrix, shape.queries(), a.attended(), rows);
    }

    /** Launches the down projection; returns the same as {@link #output}. */
    public int down(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        long matrix = weights.layers.get(layer).down();
        return !plan.finishes(rows)
                ? partials(
                        stream,
                        plan.method(rows),
                        layer,
                        matrix,
                        CudaWeights.Maps::down,
                        shape.hidden(),
                        shape.intermediate(),
                        a.activation(),
                        rows)
                : toResidual(stream, a, matrix, shape.intermediate(), a.activation(), rows);
    }

    private int toResidual(Stream stream, GemmBuffers a, long matrix, int depth, DeviceBuffer x, int rows) {
        library.multiply(
                stream,
                matrix,
                shape.hidden(),
                depth,
                x.address(),
                GemmPlan.roundUp(rows),
                a.residual().address(),
                Result.WIDE_ADDED);
        return 0;
    }

    /**
     * Launches the gate and up projection. It writes the activation buffer where {@link GemmPlan#activates} holds, else
     * the gate and up buffer.
     */
    public void gateUp(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        int n = 2 * shape.intermediate();
        int depth = shape.hidden();
        long matrix = weights.layers.get(layer).gateUp();
        Method method = plan.method(rows);
        int strips = strips(n, method);
        long out = a.activation().address();
        switch (method) {
            case GEMV_TMA ->
                kernels.gemvTmaSwiglu(rows)
                        .launch(
                                stream,
                                strips,
                                1,
                                weights.maps.get(layer).gateUp(),
                                xMap(a.normed(), depth, rows, method),
                                out,
                                rows,
                                n,
                                depth);
            case GEMV ->
                kernels.gemvSwiglu(rows)
                        .launch(stream, strips, 1, matrix, a.normed().address(), out, rows, n, depth);
            case WGMMA -> {
                Optional<Kernel> tall = kernels.wgmmaSwigluTall(rows).filter(kernel -> fillsTurns(strips));
                tall.orElse(kernels.wgmmaSwiglu(rows))
                        .launch(
                                stream,
                                tall.isPresent() ? (strips + 1) / 2 : strips,
                                1,
                                weights.maps.get(layer).gatePairs(),
                                xMap(a.normed(), depth, rows, method),
                                out,
                                rows,
                                n,
                                depth);
            }
            case LIBRARY -> {
                if (plan.activates(rows)) {
                    kernels.gemmSwiglu()
                            .orElseThrow()
                            .launch(
                                    stream,
                                    gemmSwigluBlocks(),
                                    1,
                                    weights.maps.get(layer).gatePairs(),
                                    wholeMap(a.normed(), depth, PAIR_ROWS / 2),
                                    wholeMap(a.activation(), shape.intermediate(), PANEL_ROWS),
                                    rows,
                                    depth);
                } else {
                    library.multiply(
                            stream,
                            matrix,
                            n,
                            depth,
                            a.normed().address(),
                            GemmPlan.roundUp(rows),
                            a.gateUp().address(),
                            Result.NARROW);
                }
            }
        }
    }

    /** Thread blocks of gemm_swiglu.cu: an even number, because clusters pair them. */
    private int gemmSwigluBlocks() {
        return device.multiprocessors() / 2 * 2;
    }

    /** Pairs of tiles that a pair of thread blocks of gemm_swiglu.cu computes in turn, for so many rows. */
    public int gemmSwigluTurns(int rows) {
        int columns = (2 * shape.intermediate() + TILE_WEIGHTS - 1) / TILE_WEIGHTS;
        int pairs = (rows + PAIR_ROWS - 1) / PAIR_ROWS;
        return (pairs * columns * 2 + gemmSwigluBlocks() - 1) / gemmSwigluBlocks();
    }

    /** Whether thread blocks of two strips finish as soon as blocks of one; then x is loaded half as often. */
    private boolean fillsTurns(int strips) {
        int atATime = device.multiprocessors();
        return 2 * (((strips + 1) / 2 + atATime - 1) / atATime) <= (strips + atATime - 1) / atATime;
    }

    /** Launches the output head, which writes the logits of the normed rows. */
    public void head(Stream stream, GemmPlan plan, GemmBuffers a, int rows) {
        if (plan.finishes(rows)) {
            library.multiply(
                    stream,
                    weights.head,
                    shape.vocabulary(),
                    shape.hidden(),
                    a.normed().address(),
                    GemmPlan.roundUp(rows),
                    logits.address(),
                    Result.WIDE);
            return;
        }
        sums(
                stream,
                plan.method(rows),
                weights.head,
                () -> weights.headMap.orElseThrow(),
                shape.vocabulary(),
                shape.hidden(),
                a.normed(),
                rows,
                1,
                logits);
    }

    /** Launches a split-K GEMM; returns the number of partial sums. */
    private int partials(
            Stream stream,
            Method method,
            int layer,
            long matrix,
            Function<CudaWeights.Maps, TensorMap> map,
            int n,
            int depth,
            DeviceBuffer x,
            int rows) {
        int splits = splits(n, depth, rows, method);
        sums(stream, method, matrix, () -> map.apply(weights.maps.get(layer)), n, depth, x, rows, splits, partials);
        return splits;
    }

    /** Launches a split-K GEMM with result {@code out} [splits][rows][n] fp32. */
    private void sums(
            Stream stream,
            Method method,
            long matrix,
            Supplier<TensorMap> map,
            int n,
            int depth,
            DeviceBuffer x,
            int rows,
            int splits,
            DeviceBuffer out) {
        int strips = strips(n, method);
        switch (method) {
            case GEMV_TMA ->
                kernels.gemvTma(rows)
                        .launch(
                                stream,
                                strips,
                                splits,
                                map.get(),
                                xMap(x, depth, rows, method),
                                out.address(),
                                rows,
                                n,
                                depth);
            case GEMV ->
                kernels.gemv(rows).launch(stream, strips, splits, matrix, x.address(), out.address(), rows, n, depth);
            case WGMMA ->
                kernels.wgmma(rows)
                        .launch(
                                stream,
                                strips,
                                splits,
                                map.get(),
                                xMap(x, depth, rows, method),
                                out.address(),
                                rows,
                                n,
                                depth);
            case LIBRARY -> throw new IllegalArgumentException("the library leaves finished results");
        }
    }

    private TensorMap xMap(DeviceBuffer x, int depth, int rows, Method method) {
        int boxRows = method == Method.WGMMA ? Kernels.wgmmaRows(rows) : 8 * Kernels.tiles(rows);
        return map(new Shape(x.address(), GemmPlan.roundUp(rows), depth, boxRows));
    }

    /** The tensor map of all rows of a buffer. */
    private TensorMap wholeMap(DeviceBuffer buffer, int columns, int boxRows) {
        return map(new Shape(
                buffer.address(),
                buffer.bytes() / ((long) columns * shape.type().bytes()),
                columns,
                boxRows));
    }

    private TensorMap map(Shape key) {
        return maps.computeIfAbsent(
                key, k -> TensorMap.of(device, k.address(), k.rows(), k.columns(), k.boxRows(), shape.type()));
    }

    private static int strips(int n, Method method) {
        int strip = method == Method.GEMV ? GEMV_STRIP : STRIP;
        return (n + strip - 1) / strip;
    }

    private int splits(int n, int depth, int rows, Method method) {
        int blocksAtATime = device.multiprocessors() * (method == Method.GEMV_TMA ? kernels.gemvTmaBlocks(rows) : 1);
        return SplitK.of(strips(n, method), depth, blocksAtATime, method == Method.WGMMA ? WGMMA_FIXED_COLUMNS : 0);
    }

    /** Chooses cublasLt's algorithms for steps of so many rows; overwrites the activations. */
    public void measure(Stream stream, GemmBuffers a, int rows) {
        measure(stream, CudaWeights.Layer::qkv, shape.qkv(), shape.hidden(), a.normed(), rows, a.qkv(), Result.NARROW);
        measure(
                stream,
                CudaWeights.Layer::output,
                shape.hidden(),
                shape.queries(),
                a.attended(),
                rows,
                a.residual(),
                Result.WIDE_ADDED);
        measure(
                stream,
                CudaWeights.Layer::gateUp,
                2 * shape.intermediate(),
                shape.hidden(),
                a.normed(),
                rows,
                a.gateUp(),
                Result.NARROW);
        measure(
                stream,
                CudaWeights.Layer::down,
                shape.hidden(),
                shape.intermediate(),
                a.activation(),
                rows,
                a.residual(),
                Result.WIDE_ADDED);
    }

    private void measure(
            Stream stream,
            ToLongFunction<CudaWeights.Layer> matrix,
            int n,
            int depth,
            DeviceBuffer x,
            int rows,
            DeviceBuffer out,
            Result result) {
        List<Long> matrices = weights.layers.stream()
                .limit(MEASURED_LAYERS)
                .map(matrix::applyAsLong)
                .toList();
        if (rows <= CublasLtGemm.MANY_ROWS) {
            fillRandom(stream, x, (long) GemmPlan.roundUp(rows) * depth);
        } else {
            // random values hold the GPU at its power limit, where its clock varies by more than the candidates differ
            stream.fill(x, 0);
        }
        library.measure(stream, matrices, n, depth, x.address(), GemmPlan.roundUp(rows), out.address(), result);
    }

    /** Chooses the algorithm of the output head for so many sampled rows; overwrites the normed rows. */
    public void measureHead(Stream stream, GemmBuffers a, int sampled) {
        fillRandom(stream, a.normed(), (long) GemmPlan.roundUp(sampled) * shape.hidden());
        library.measure(
                stream,
                List.of(weights.head),
                shape.vocabulary(),
                shape.hidden(),
                a.normed().address(),
                GemmPlan.roundUp(sampled),
                logits.address(),
                Result.WIDE);
    }

    /** Makes cublasLt load its kernels for steps of so many rows; overwrites the activations. */
    public void load(Stream stream, GemmBuffers a, int rows) {
        CudaWeights.Layer layer = weights.layers.getFirst();
        int padded = GemmPlan.roundUp(rows);
        library.load(
                stream,
                layer.qkv(),
                shape.qkv(),
                shape.hidden(),
                a.normed().address(),
                padded,
                a.qkv().address(),
                Result.NARROW);
        library.load(
                stream,
                layer.output(),
                shape.hidden(),
                shape.queries(),
                a.attended().address(),
                padded,
                a.residual().address(),
                Result.WIDE_ADDED);
        library.load(
                stream,
                layer.gateUp(),
                2 * shape.intermediate(),
                shape.hidden(),
                a.normed().address(),
                padded,
                a.gateUp().address(),
                Result.NARROW);
        library.load(
                stream,
                layer.down(),
                shape.hidden(),
                shape.intermediate(),
                a.activation().address(),
                padded,
                a.residual().address(),
                Result.WIDE_ADDED);
    }

    /** Likewise for the output head; overwrites the logits. */
    public void loadHead(Stream stream, GemmBuffers a, int sampled) {
        library.load(
                stream,
                weights.head,
                shape.vocabulary(),
                shape.hidden(),
                a.normed().address(),
                GemmPlan.roundUp(sampled),
                logits.address(),
                Result.WIDE);
    }

    private void fillRandom(Stream stream, DeviceBuffer buffer, long count) {
        kernels.randomFill.launch(
                stream,
                device.multiprocessors() * 4,
                1,
                buffer.address(),
                count,
                Integer.MAX_VALUE,
                Integer.MAX_VALUE,
                1L,
                0f,
                1f);
    }

    @Override
    public void close() {
        partials.close();
    }
}
