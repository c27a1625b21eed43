package dev.tandem.cuda.gemm;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.gemm.Gemm.Result;
import dev.tandem.cuda.gemm.GemmPlan.Method;
import dev.tandem.cuda.kernels.KernelConstants;
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
import java.util.function.IntFunction;
import java.util.stream.IntStream;

/**
 * Launches a layer's GEMMs and the output head, by the method that a {@link GemmPlan} names.
 *
 * <p>Owned by: engine thread.
 */
public final class LayerGemms implements AutoCloseable {
    /** Weight rows of a thread block of gemv.cu. */
    private static final int GEMV_STRIP = KernelConstants.GEMV_THREADS;
    /** Weight rows of a thread block of gemv_tma.cu and gemm_wgmma.cu. */
    private static final int STRIP = 2 * KernelConstants.BOX_ROWS;
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
    public static final int PAIR_ROWS = 2 * KernelConstants.SWIGLU_TILE_ROWS;
    /** Rows of results that a warpgroup of gemm_swiglu.cu stores at once. */
    private static final int PANEL_ROWS = KernelConstants.SWIGLU_TILE_ROWS / 2;

    /** A tensor map of activations. */
    private record MapKey(long address, long rows, int columns, int boxRows) {}

    private final Device device;
    private final Kernels kernels;
    private final CublasLtGemm library;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final DeviceBuffer logits;
    private final DeviceBuffer partials;
    private final Map<MapKey, TensorMap> maps = new HashMap<>();

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
                for (Gemm.Shape sums : List.of(qkvShape(), outputShape(), downShape())) {
                    max = Math.max(max, (long) rows * splits(sums, rows, method) * sums.n());
                }
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
            methods.add(Method.WGMMA_TALL);
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

    private Gemm.Shape qkvShape() {
        return new Gemm.Shape(shape.qkv(), shape.hidden());
    }

    private Gemm.Shape outputShape() {
        return new Gemm.Shape(shape.hidden(), shape.queries());
    }

    private Gemm.Shape downShape() {
        return new Gemm.Shape(shape.hidden(), shape.intermediate());
    }

    private Gemm qkv(GemmBuffers a, int layer) {
        long matrix = weights.layers.get(layer).qkv();
        return new Gemm(matrix, map(layer, CudaWeights.Maps::qkv), qkvShape(), a.normed(), a.qkv(), Result.NARROW);
    }

    private Gemm output(GemmBuffers a, int layer) {
        long matrix = weights.layers.get(layer).output();
        return projection(a, matrix, map(layer, CudaWeights.Maps::output), outputShape(), a.attended());
    }

    private Gemm gateUp(GemmBuffers a, int layer) {
        long matrix = weights.layers.get(layer).gateUp();
        Gemm.Shape both = new Gemm.Shape(2 * shape.intermediate(), shape.hidden());
        return new Gemm(matrix, map(layer, CudaWeights.Maps::gateUp), both, a.normed(), a.gateUp(), Result.NARROW);
    }

    private Gemm down(GemmBuffers a, int layer) {
        long matrix = weights.layers.get(layer).down();
        return projection(a, matrix, map(layer, CudaWeights.Maps::down), downShape(), a.activation());
    }

    /** A projection that is finished in the residual stream, or, where its norm is added, in a buffer of its own. */
    private static Gemm projection(
            GemmBuffers a, long matrix, Optional<TensorMap> map, Gemm.Shape shape, DeviceBuffer x) {
        return a.projected()
                .map(out -> new Gemm(matrix, map, shape, x, out, Result.WIDE))
                .orElseGet(() -> new Gemm(matrix, map, shape, x, a.residual(), Result.WIDE_ADDED));
    }

    private Gemm head(GemmBuffers a) {
        Gemm.Shape head = new Gemm.Shape(shape.vocabulary(), shape.hidden());
        return new Gemm(weights.head, weights.headMap, head, a.normed(), logits, Result.WIDE);
    }

    private Optional<TensorMap> map(int layer, Function<CudaWeights.Maps, TensorMap> map) {
        return weights.maps.isEmpty() ? Optional.empty() : Optional.of(map.apply(weights.maps.get(layer)));
    }

    /** Launches the QKV projection. It writes {@link #qkvSplits} partial sums, or the finished q, k and v buffer. */
    public void qkv(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        launch(stream, plan, qkv(a, layer), rows);
    }

    /** Partial sums that {@link #qkv} leaves; 0 where it finishes. */
    public int qkvSplits(GemmPlan plan, int rows) {
        return plan.finishes(rows) ? 0 : splits(qkvShape(), rows, plan.method(rows));
    }

    /**
     * Launches the output projection. Returns the number of partial sums that it leaves; 0 where the result is finished
     * in {@link GemmBuffers#projected}, or added to the residual stream.
     */
    public int output(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        return launch(stream, plan, output(a, layer), rows);
    }

    /** Launches the down projection; returns the same as {@link #output}. */
    public int down(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        return launch(stream, plan, down(a, layer), rows);
    }

    /** Launches a GEMM by the plan's method. Returns the number of partial sums; 0 where the result is finished. */
    private int launch(Stream stream, GemmPlan plan, Gemm gemm, int rows) {
        if (plan.finishes(rows)) {
            library.multiply(stream, gemm, GemmPlan.roundUp(rows));
            return 0;
        }
        Method method = plan.method(rows);
        int splits = splits(gemm.shape(), rows, method);
        sums(stream, method, gemm, rows, splits, partials);
        return splits;
    }

    /**
     * Launches the gate and up projection. It writes the activation buffer where {@link GemmPlan#activates} holds, else
     * the gate and up buffer.
     */
    public void gateUp(Stream stream, GemmPlan plan, GemmBuffers a, int layer, int rows) {
        Gemm gemm = gateUp(a, layer);
        int n = gemm.shape().n();
        int depth = gemm.shape().depth();
        Method method = plan.method(rows);
        int strips = strips(n, method);
        long out = a.activation().address();
        switch (method) {
            case GEMV_TMA -> {
                TensorMap map = gemm.map().orElseThrow();
                TensorMap x = xMap(gemm, rows, method);
                kernels.gemvTmaSwiglu(rows).launch(stream, strips, 1, map, x, out, rows, n, depth);
            }
            case GEMV -> {
                long x = gemm.x().address();
                kernels.gemvSwiglu(rows).launch(stream, strips, 1, gemm.weights(), x, out, rows, n, depth);
            }
            case WGMMA, WGMMA_TALL -> {
                TensorMap pairs = weights.maps.get(layer).gatePairs();
                TensorMap x = xMap(gemm, rows, method);
                boolean tall = isTall(method, strips, 1);
                Kernel kernel = tall ? kernels.wgmmaSwigluTall(rows) : kernels.wgmmaSwiglu(rows);
                kernel.launch(stream, tall ? (strips + 1) / 2 : strips, 1, pairs, x, out, rows, n, depth);
            }
            case LIBRARY -> {
                if (plan.activates(rows)) {
                    TensorMap pairs = weights.maps.get(layer).gatePairs();
                    TensorMap x = wholeMap(gemm.x(), depth, PAIR_ROWS / 2);
                    TensorMap activation = wholeMap(a.activation(), shape.intermediate(), PANEL_ROWS);
                    Kernel kernel = kernels.gemmSwiglu().orElseThrow();
                    kernel.launch(stream, gemmSwigluBlocks(), 1, pairs, x, activation, rows, depth);
                } else {
                    library.multiply(stream, gemm, GemmPlan.roundUp(rows));
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
        int tileWeights = KernelConstants.SWIGLU_TILE_WEIGHTS;
        int columns = (2 * shape.intermediate() + tileWeights - 1) / tileWeights;
        int pairs = (rows + PAIR_ROWS - 1) / PAIR_ROWS;
        return (pairs * columns * 2 + gemmSwigluBlocks() - 1) / gemmSwigluBlocks();
    }

    /**
     * Whether thread blocks compute two strips, and so load x half as often: where the method says so, and they finish
     * as soon as blocks of one strip.
     */
    private boolean isTall(Method method, int strips, int splits) {
        int atATime = device.multiprocessors();
        int turns = (strips * splits + atATime - 1) / atATime;
        int tallTurns = ((strips + 1) / 2 * splits + atATime - 1) / atATime;
        return method == Method.WGMMA_TALL && 2 * tallTurns <= turns;
    }

    /** Launches the output head, which writes the logits of the normed rows. */
    public void head(Stream stream, GemmPlan plan, GemmBuffers a, int rows) {
        Gemm gemm = head(a);
        if (plan.finishes(rows)) {
            library.multiply(stream, gemm, GemmPlan.roundUp(rows));
        } else {
            sums(stream, plan.method(rows), gemm, rows, 1, gemm.out());
        }
    }

    /** Launches a split-K GEMM with result {@code out} [splits][rows][n] fp32. */
    private void sums(Stream stream, Method method, Gemm gemm, int rows, int splits, DeviceBuffer sums) {
        int n = gemm.shape().n();
        int depth = gemm.shape().depth();
        int strips = strips(n, method);
        long out = sums.address();
        switch (method) {
            case GEMV_TMA -> {
                TensorMap map = gemm.map().orElseThrow();
                TensorMap x = xMap(gemm, rows, method);
                kernels.gemvTma(rows).launch(stream, strips, splits, map, x, out, rows, n, depth);
            }
            case WGMMA, WGMMA_TALL -> {
                TensorMap map = gemm.map().orElseThrow();
                TensorMap x = xMap(gemm, rows, method);
                boolean tall = isTall(method, strips, splits);
                Kernel kernel = tall ? kernels.wgmmaTall(rows) : kernels.wgmma(rows);
                kernel.launch(stream, tall ? (strips + 1) / 2 : strips, splits, map, x, out, rows, n, depth);
            }
            case GEMV -> {
                long x = gemm.x().address();
                kernels.gemv(rows).launch(stream, strips, splits, gemm.weights(), x, out, rows, n, depth);
            }
            case LIBRARY -> throw new IllegalArgumentException("the library leaves finished results");
        }
    }

    private TensorMap xMap(Gemm gemm, int rows, Method method) {
        int boxRows = method == Method.GEMV_TMA ? 8 * Kernels.tiles(rows) : (rows + 7) / 8 * 8;
        return map(new MapKey(
                gemm.x().address(), GemmPlan.roundUp(rows), gemm.shape().depth(), boxRows));
    }

    /** The tensor map of all rows of a buffer. */
    private TensorMap wholeMap(DeviceBuffer buffer, int columns, int boxRows) {
        return map(new MapKey(
                buffer.address(),
                buffer.bytes() / ((long) columns * shape.type().bytes()),
                columns,
                boxRows));
    }

    private TensorMap map(MapKey key) {
        return maps.computeIfAbsent(
                key, k -> TensorMap.of(device, k.address(), k.rows(), k.columns(), k.boxRows(), shape.type()));
    }

    private static int strips(int n, Method method) {
        int strip = method == Method.GEMV ? GEMV_STRIP : STRIP;
        return (n + strip - 1) / strip;
    }

    private int splits(Gemm.Shape gemm, int rows, Method method) {
        int blocksAtATime = device.multiprocessors() * (method == Method.GEMV_TMA ? kernels.gemvTmaBlocks(rows) : 1);
        boolean wgmma = method == Method.WGMMA || method == Method.WGMMA_TALL;
        int fixed = wgmma ? WGMMA_FIXED_COLUMNS : 0;
        return SplitK.of(strips(gemm.n(), method), gemm.depth(), blocksAtATime, fixed);
    }

    /** Chooses cublasLt's algorithms for steps of so many rows; overwrites the activations. */
    public void measure(Stream stream, GemmBuffers a, int rows) {
        measure(stream, layer -> qkv(a, layer), rows);
        measure(stream, layer -> output(a, layer), rows);
        measure(stream, layer -> gateUp(a, layer), rows);
        measure(stream, layer -> down(a, layer), rows);
    }

    private void measure(Stream stream, IntFunction<Gemm> ofLayer, int rows) {
        Gemm gemm = ofLayer.apply(0);
        List<Long> matrices = IntStream.range(0, Math.min(MEASURED_LAYERS, weights.layers.size()))
                .mapToObj(layer -> ofLayer.apply(layer).weights())
                .toList();
        if (rows <= CublasLtGemm.MANY_ROWS) {
            fillRandom(stream, gemm, rows);
        } else {
            // random values hold the GPU at its power limit, where its clock varies by more than the candidates differ
            stream.fill(gemm.x(), 0);
        }
        library.measure(stream, gemm, matrices, GemmPlan.roundUp(rows));
    }

    /** Chooses the algorithm of the output head for so many sampled rows; overwrites the normed rows. */
    public void measureHead(Stream stream, GemmBuffers a, int sampled) {
        Gemm gemm = head(a);
        fillRandom(stream, gemm, sampled);
        library.measure(stream, gemm, List.of(gemm.weights()), GemmPlan.roundUp(sampled));
    }

    /** Makes cublasLt load its kernels for steps of so many rows; overwrites the activations. */
    public void load(Stream stream, GemmBuffers a, int rows) {
        for (Gemm gemm : List.of(qkv(a, 0), output(a, 0), gateUp(a, 0), down(a, 0))) {
            library.load(stream, gemm, GemmPlan.roundUp(rows));
        }
    }

    /** Likewise for the output head; overwrites the logits. */
    public void loadHead(Stream stream, GemmBuffers a, int sampled) {
        library.load(stream, head(a), GemmPlan.roundUp(sampled));
    }

    /** Fills x of so many rows with random values. */
    private void fillRandom(Stream stream, Gemm gemm, int rows) {
        long count = (long) GemmPlan.roundUp(rows) * gemm.shape().depth();
        int all = Integer.MAX_VALUE;
        int blocks = device.multiprocessors() * 4;
        kernels.randomFill.launch(stream, blocks, 1, gemm.x().address(), count, all, all, 1L, 0f, 1f);
    }

    @Override
    public void close() {
        partials.close();
    }
}
