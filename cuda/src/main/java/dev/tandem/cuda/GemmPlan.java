package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.kernels.CublasLtGemm;
import dev.tandem.cuda.kernels.CublasLtGemm.Result;
import dev.tandem.cuda.kernels.Kernels;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/**
 * A layer's GEMMs. For few rows, where reading the weights is all that counts, the project's own kernels, on Hopper for
 * up to 192 where they are faster: they leave partial sums, which the next row-wise kernel adds up. For more rows
 * cublasLt, which adds to the residual stream, but for gate and up with their activation, where {@link SwigluCrossover}
 * says so.
 *
 * <p>Owned by: engine thread.
 */
final class GemmPlan implements AutoCloseable {
    /** Rows of a product of cublasLt are rounded up to this: fewer shapes to choose algorithms for. */
    static final int ROW_STEP = 64;
    /** Weight rows of a block: gemv.cu; gemv_tma.cu and gemm_wgmma.cu. */
    private static final int GEMV_STRIP = 256;

    private static final int STRIP = 128;
    /**
     * What a block of gemm_wgmma.cu takes beside its columns, in columns: the first ones' way, and storing its sums.
     */
    private static final int WGMMA_FIXED_COLUMNS = 512;
    /** Fewer rows are not worth measuring gemm_wgmma.cu for. */
    private static final int MIN_WGMMA_ROWS = 17;
    /** Layers whose weights take turns when products are measured: together more than the cache holds. */
    static final int MEASURED_LAYERS = 4;
    /**
     * Rows of x in a pair of tiles of gemm_swiglu.cu, weight rows of each, and rows of results that its warps store at
     * once.
     */
    static final int PAIR_ROWS = 256;

    private static final int TILE_WEIGHTS = 256;
    private static final int PANEL_ROWS = 64;

    /** Who computes products. */
    enum Method {
        /** gemv_tma.cu: partial sums; the tensor copy engine brings the weights. */
        STREAM,
        /** gemv.cu: partial sums; weights go straight to registers. */
        GEMV,
        /** gemm_wgmma.cu: partial sums; groups of warps multiply what the tensor copy engine brings. */
        WGMMA,
        /** cublasLt: finished results; gate and up of gemm_swiglu.cu where that pays. */
        LIBRARY
    }

    private record Shape(long address, long rows, int columns, int boxRows) {}

    private final Device device;
    private final Kernels kernels;
    private final CublasLtGemm library;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final DeviceBuffer logits;
    private final DeviceBuffer partials;
    private final Map<Shape, TensorMap> maps = new HashMap<>();
    /** By the most rows that it is for: what gemv_tma.cu and gemm_wgmma.cu are compiled for. */
    private final TreeMap<Integer, Method> methods = new TreeMap<>();

    private Optional<SwigluCrossover> manyRows = Optional.empty();

    /** @param logits [sampled rows, vocabulary] fp32 */
    GemmPlan(
            Device device,
            Kernels kernels,
            CublasLtGemm library,
            CudaWeights weights,
            ModelShape shape,
            DeviceBuffer logits) {
        this.device = device;
        this.kernels = kernels;
        this.library = library;
        this.weights = weights;
        this.shape = shape;
        this.logits = logits;
        Kernels.TILES.forEach(
                tiles -> methods.put(8 * tiles, available(8 * tiles).getFirst()));
        if (kernels.wgmma()) {
            Kernels.WGMMA_ROWS.forEach(rows -> methods.putIfAbsent(rows, Method.WGMMA));
        }
        long max = 0;
        for (int rows : methods.keySet()) {
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

    static int roundUp(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    /** Whether results for so many rows are finished, rather than partial sums. */
    boolean finishes(int rows) {
        return method(rows) == Method.LIBRARY;
    }

    /** Whether {@link #gateUp} leaves activations, rather than gate and up. */
    boolean activates(int rows) {
        return !finishes(rows) || manyRows.isPresent() && manyRows.get().pays(rows);
    }

    private Method method(int rows) {
        Map.Entry<Integer, Method> chosen = methods.ceilingEntry(rows);
        return chosen == null ? Method.LIBRARY : chosen.getValue();
    }

    /** What was chosen for each number of rows that there is a choice for. */
    String chosen() {
        StringBuilder text = new StringBuilder();
        methods.forEach((rows, method) -> text.append(text.isEmpty() ? "" : ", ")
                .append("up to ")
                .append(rows)
                .append(" rows ")
                .append(method.name().toLowerCase(Locale.ROOT)));
        manyRows.ifPresent(
                many -> text.append("; beyond that library, but gate and up with activation in one kernel at ")
                        .append(many.text())
                        .append(" rows"));
        return text.toString();
    }

    /** Whether there is a kernel for gate and up of many rows, and the two multiprocessors that it needs. */
    boolean many() {
        return kernels.gemmSwiglu().isPresent() && manyBlocks() > 0;
    }

    /** Takes gemm_swiglu.cu for gate and up where it pays. */
    void choose(SwigluCrossover manyRows) {
        this.manyRows = Optional.of(manyRows);
    }

    /** The most rows of each choice, ascending. */
    List<Integer> choices() {
        return List.copyOf(methods.keySet());
    }

    /** The methods there are for so many rows on this GPU. */
    List<Method> available(int rows) {
        List<Method> methods = new ArrayList<>();
        if (kernels.streams() && rows <= Kernels.GEMV_MAX_ROWS) {
            methods.add(Method.STREAM);
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

    /** Takes a method for so many rows. */
    void choose(int rows, Method method) {
        methods.put(methods.ceilingKey(rows), method);
    }

    /** [splits][rows][width] fp32 of the last product that is not finished. */
    long partials() {
        return partials.address();
    }

    long bytes() {
        return partials.bytes();
    }

    /** To the partial sums, of which there are {@link #qkvSplits}, or finished to the q, k, v buffer. */
    void qkv(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).qkv();
        if (finishes(rows)) {
            library.multiply(
                    stream,
                    matrix,
                    shape.qkv(),
                    shape.hidden(),
                    a.normed().address(),
                    roundUp(rows),
                    a.qkv().address(),
                    Result.NARROW);
        } else {
            few(stream, layer, matrix, CudaWeights.Maps::qkv, shape.qkv(), shape.hidden(), a.normed(), rows);
        }
    }

    /** Partial sums that {@link #qkv} leaves, 0 where it finishes. */
    int qkvSplits(int rows) {
        return finishes(rows) ? 0 : splits(shape.qkv(), shape.hidden(), rows, method(rows));
    }

    /** To the partial sums, whose number is returned, or (0) added to the residual stream. */
    int output(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).output();
        return !finishes(rows)
                ? few(
                        stream,
                        layer,
                        matrix,
                        CudaWeights.Maps::output,
                        shape.hidden(),
                        shape.queries(),
                        a.attended(),
                        rows)
                : toResidual(stream, a, matrix, shape.queries(), a.attended(), rows);
    }

    /** As {@link #output}. */
    int down(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).down();
        return !finishes(rows)
                ? few(
                        stream,
                        layer,
                        matrix,
                        CudaWeights.Maps::down,
                        shape.hidden(),
                        shape.intermediate(),
                        a.activation(),
                        rows)
                : toResidual(stream, a, matrix, shape.intermediate(), a.activation(), rows);
    }

    private int toResidual(Stream stream, Activations a, long matrix, int depth, DeviceBuffer x, int rows) {
        library.multiply(
                stream,
                matrix,
                shape.hidden(),
                depth,
                x.address(),
                roundUp(rows),
                a.residual().address(),
                Result.WIDE_ADDED);
        return 0;
    }

    /** To the activation buffer if it {@link #activates}, else to the gate and up buffer. */
    void gateUp(Stream stream, Activations a, int layer, int rows) {
        int n = 2 * shape.intermediate();
        int depth = shape.hidden();
        long matrix = weights.layers.get(layer).gateUp();
        Method method = method(rows);
        int strips = strips(n, method);
        long out = a.activation().address();
        switch (method) {
            case STREAM ->
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
                if (activates(rows)) {
                    kernels.gemmSwiglu()
                            .orElseThrow()
                            .launch(
                                    stream,
                                    manyBlocks(),
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
                            roundUp(rows),
                            a.gateUp().address(),
                            Result.NARROW);
                }
            }
        }
    }

    /** Pairs of them have neighbouring multiprocessors. */
    private int manyBlocks() {
        return device.multiprocessors() / 2 * 2;
    }

    /** How many pairs of tiles a pair of blocks of gemm_swiglu.cu takes one after the other, for so many rows. */
    int manyTurns(int rows) {
        int columns = (2 * shape.intermediate() + TILE_WEIGHTS - 1) / TILE_WEIGHTS;
        int pairs = (rows + PAIR_ROWS - 1) / PAIR_ROWS;
        return (pairs * columns * 2 + manyBlocks() - 1) / manyBlocks();
    }

    /** Whether blocks of two strips each end as soon as blocks of one: then x comes half as often. */
    private boolean fillsTurns(int strips) {
        int atATime = device.multiprocessors();
        return 2 * (((strips + 1) / 2 + atATime - 1) / atATime) <= (strips + atATime - 1) / atATime;
    }

    /** Logits of the normed rows. */
    void head(Stream stream, Activations a, int rows) {
        if (finishes(rows)) {
            library.multiply(
                    stream,
                    weights.head,
                    shape.vocabulary(),
                    shape.hidden(),
                    a.normed().address(),
                    roundUp(rows),
                    logits.address(),
                    Result.WIDE);
            return;
        }
        sums(
                stream,
                weights.head,
                () -> weights.headMap.orElseThrow(),
                shape.vocabulary(),
                shape.hidden(),
                a.normed(),
                rows,
                1,
                logits);
    }

    private int few(
            Stream stream,
            int layer,
            long matrix,
            Function<CudaWeights.Maps, TensorMap> map,
            int n,
            int depth,
            DeviceBuffer x,
            int rows) {
        int splits = splits(n, depth, rows, method(rows));
        sums(stream, matrix, () -> map.apply(weights.maps.get(layer)), n, depth, x, rows, splits, partials);
        return splits;
    }

    /** out [splits][rows][n] fp32. */
    private void sums(
            Stream stream,
            long matrix,
            Supplier<TensorMap> map,
            int n,
            int depth,
            DeviceBuffer x,
            int rows,
            int splits,
            DeviceBuffer out) {
        Method method = method(rows);
        int strips = strips(n, method);
        switch (method) {
            case STREAM ->
                kernels.stream(rows)
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
        return map(new Shape(x.address(), roundUp(rows), depth, boxRows));
    }

    /** Of all rows that the buffer has room for. */
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
        int blocksAtATime = device.multiprocessors() * (method == Method.STREAM ? kernels.gemvTmaBlocks(rows) : 1);
        return SplitK.of(strips(n, method), depth, blocksAtATime, method == Method.WGMMA ? WGMMA_FIXED_COLUMNS : 0);
    }

    /** Chooses cublasLt's algorithms for steps of so many rows; overwrites the activations. */
    void measure(Stream stream, Activations a, int rows) {
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
            fillRandom(stream, x, (long) roundUp(rows) * depth);
        } else {
            // random values hold the GPU at its power limit, where its speed wanders by more than the candidates differ
            stream.fill(x, 0);
        }
        library.measure(stream, matrices, n, depth, x.address(), roundUp(rows), out.address(), result);
    }

    /** Chooses the algorithm of the output head for so many sampled rows; overwrites the normed rows. */
    void measureHead(Stream stream, Activations a, int sampled) {
        fillRandom(stream, a.normed(), (long) roundUp(sampled) * shape.hidden());
        library.measure(
                stream,
                List.of(weights.head),
                shape.vocabulary(),
                shape.hidden(),
                a.normed().address(),
                roundUp(sampled),
                logits.address(),
                Result.WIDE);
    }

    /** Has cublasLt load what steps of so many rows need; overwrites the activations. */
    void load(Stream stream, Activations a, int rows) {
        CudaWeights.Layer layer = weights.layers.getFirst();
        int padded = roundUp(rows);
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
    void loadHead(Stream stream, Activations a, int sampled) {
        library.load(
                stream,
                weights.head,
                shape.vocabulary(),
                shape.hidden(),
                a.normed().address(),
                roundUp(sampled),
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
