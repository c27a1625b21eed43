package dev.tandem.cuda;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.device.TensorMap;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.MatrixProducts;
import dev.tandem.cuda.kernels.MatrixProducts.Result;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * A layer's matrix products. For few rows, where reading the weights is all that counts, the project's own kernels: they
 * leave partial sums, which the next row-wise kernel adds up. For more rows cublasLt, which adds to the residual stream.
 *
 * <p>Owned by: engine thread.
 */
final class Linear implements AutoCloseable {
    /** Rows of a product of cublasLt are rounded up to this: fewer shapes to choose algorithms for. */
    static final int ROW_STEP = 64;
    /** Weight rows of a block: skinny.cu, stream.cu. */
    private static final int SKINNY_STRIP = 256;
    private static final int STREAM_STRIP = 128;
    /** Steps of 32 columns below which a split is not worth its partial sums. */
    private static final int LEAST_STEPS = 8;
    private static final int MOST_SPLITS = 16;

    /** Who computes products. */
    enum Method {
        /** stream.cu: partial sums; the tensor copy engine brings the weights. */
        STREAM,
        /** skinny.cu: partial sums; weights go straight to registers. */
        SKINNY,
        /** cublasLt: finished results. */
        LIBRARY
    }

    private record XShape(long address, int depth, int boxRows) {}

    private final Device device;
    private final Kernels kernels;
    private final MatrixProducts library;
    private final CudaWeights weights;
    private final ModelShape shape;
    private final DeviceBuffer logits;
    private final DeviceBuffer partials;
    private final Map<XShape, TensorMap> xMaps = new HashMap<>();
    /** By tiles of 8 rows. */
    private final Map<Integer, Method> methods = new TreeMap<>();

    /** @param logits [sampled rows, vocabulary] fp32 */
    Linear(Device device, Kernels kernels, MatrixProducts library, CudaWeights weights, ModelShape shape, DeviceBuffer logits) {
        this.device = device;
        this.kernels = kernels;
        this.library = library;
        this.weights = weights;
        this.shape = shape;
        this.logits = logits;
        long widest = 0;
        for (boolean streams : new boolean[] {false, true}) {
            widest = Math.max(widest, (long) splits(shape.qkv(), shape.hidden(), streams) * shape.qkv());
            widest = Math.max(widest, (long) splits(shape.hidden(), shape.queries(), streams) * shape.hidden());
            widest = Math.max(widest, (long) splits(shape.hidden(), shape.intermediate(), streams) * shape.hidden());
        }
        Kernels.TILES.forEach(tiles -> methods.put(tiles, available().getFirst()));
        this.partials = device.allocate(4L * Kernels.SKINNY_ROWS * widest, "partial sums");
    }

    static int roundUp(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    /** Whether results for so many rows are finished, rather than partial sums and activations. */
    boolean finishes(int rows) {
        return method(rows) == Method.LIBRARY;
    }

    private Method method(int rows) {
        return rows <= Kernels.SKINNY_ROWS ? methods.get(Kernels.tiles(rows)) : Method.LIBRARY;
    }

    /** What was chosen for each number of rows up to {@link Kernels#SKINNY_ROWS}. */
    String chosen() {
        StringBuilder text = new StringBuilder();
        methods.forEach((tiles, method) -> text.append(text.isEmpty() ? "" : ", ")
                .append("up to ").append(8 * tiles).append(" rows ").append(method.name().toLowerCase(Locale.ROOT)));
        return text.toString();
    }

    /** The methods there are for few rows on this GPU. */
    List<Method> available() {
        return kernels.streams() ? List.of(Method.STREAM, Method.SKINNY, Method.LIBRARY) : List.of(Method.SKINNY, Method.LIBRARY);
    }

    /** Takes a method for so many rows. */
    void choose(int rows, Method method) {
        methods.put(Kernels.tiles(rows), method);
    }

    /** [splits][rows][width] fp32 of the last product of few rows. */
    long partials() {
        return partials.address();
    }

    long bytes() {
        return partials.bytes();
    }

    /** To the partial sums, whose number is returned, or finished (0) to the q, k, v buffer. */
    int qkv(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).qkv();
        if (!finishes(rows)) {
            return few(stream, layer, matrix, CudaWeights.Maps::qkv, shape.qkv(), shape.hidden(), a.normed(), rows);
        }
        library.multiply(
                stream, matrix, shape.qkv(), shape.hidden(), a.normed().address(), roundUp(rows), a.qkv().address(),
                Result.NARROW);
        return 0;
    }

    /** To the partial sums, whose number is returned, or (0) added to the residual stream. */
    int output(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).output();
        return !finishes(rows)
                ? few(stream, layer, matrix, CudaWeights.Maps::output, shape.hidden(), shape.queries(), a.attended(), rows)
                : toResidual(stream, a, matrix, shape.queries(), a.attended(), rows);
    }

    /** As {@link #output}. */
    int down(Stream stream, Activations a, int layer, int rows) {
        long matrix = weights.layers.get(layer).down();
        return !finishes(rows)
                ? few(stream, layer, matrix, CudaWeights.Maps::down, shape.hidden(), shape.intermediate(), a.activation(), rows)
                : toResidual(stream, a, matrix, shape.intermediate(), a.activation(), rows);
    }

    private int toResidual(Stream stream, Activations a, long matrix, int depth, DeviceBuffer x, int rows) {
        library.multiply(
                stream, matrix, shape.hidden(), depth, x.address(), roundUp(rows), a.residual().address(), Result.WIDE_ADDED);
        return 0;
    }

    /** Few rows: with the activation, to the activation buffer; else to the gate and up buffer. */
    void gateUp(Stream stream, Activations a, int layer, int rows) {
        int width = shape.intermediate();
        long matrix = weights.layers.get(layer).gateUp();
        if (finishes(rows)) {
            library.multiply(
                    stream, matrix, 2 * width, shape.hidden(), a.normed().address(), roundUp(rows),
                    a.gateUp().address(), Result.NARROW);
            return;
        }
        boolean streams = method(rows) == Method.STREAM;
        int strips = strips(2 * width, streams);
        if (streams) {
            kernels.streamSwiglu(rows).launch(
                    stream, strips, 1, weights.maps.get(layer).gateUp(), xMap(a.normed(), shape.hidden(), rows),
                    a.activation().address(), rows, 2 * width, shape.hidden());
        } else {
            kernels.skinnySwiglu(rows).launch(
                    stream, strips, 1, matrix, a.normed().address(), a.activation().address(), rows, 2 * width,
                    shape.hidden());
        }
    }

    /** Logits of the normed rows. */
    void head(Stream stream, Activations a, int rows) {
        if (finishes(rows)) {
            library.multiply(
                    stream, weights.head, shape.vocabulary(), shape.hidden(), a.normed().address(), roundUp(rows),
                    logits.address(), Result.WIDE);
            return;
        }
        boolean streams = method(rows) == Method.STREAM;
        int strips = strips(shape.vocabulary(), streams);
        if (streams) {
            kernels.stream(rows).launch(
                    stream, strips, 1, weights.headMap.orElseThrow(), xMap(a.normed(), shape.hidden(), rows),
                    logits.address(), rows, shape.vocabulary(), shape.hidden());
        } else {
            kernels.skinny(rows).launch(
                    stream, strips, 1, weights.head, a.normed().address(), logits.address(), rows,
                    shape.vocabulary(), shape.hidden());
        }
    }

    private int few(
            Stream stream, int layer, long matrix, Function<CudaWeights.Maps, TensorMap> map, int n, int depth, DeviceBuffer x, int rows) {
        boolean streams = method(rows) == Method.STREAM;
        int splits = splits(n, depth, streams);
        int strips = strips(n, streams);
        if (streams) {
            kernels.stream(rows).launch(
                    stream, strips, splits, map.apply(weights.maps.get(layer)), xMap(x, depth, rows), partials.address(), rows, n, depth);
        } else {
            kernels.skinny(rows).launch(stream, strips, splits, matrix, x.address(), partials.address(), rows, n, depth);
        }
        return splits;
    }

    private TensorMap xMap(DeviceBuffer x, int depth, int rows) {
        int boxRows = 8 * Kernels.tiles(rows);
        return xMaps.computeIfAbsent(
                new XShape(x.address(), depth, boxRows),
                key -> TensorMap.of(device, key.address(), boxRows, depth, boxRows, shape.type()));
    }

    private static int strips(int n, boolean streams) {
        int strip = streams ? STREAM_STRIP : SKINNY_STRIP;
        return (n + strip - 1) / strip;
    }

    /**
     * Splits of the depth so that the blocks fill whole waves of the multiprocessors; each costs partial sums, about a
     * fiftieth of the product.
     */
    private int splits(int n, int depth, boolean streams) {
        int strips = strips(n, streams);
        int slots = device.multiprocessors() * (streams ? 2 : 1);
        int most = Math.max(1, Math.min(MOST_SPLITS, depth / 32 / LEAST_STEPS));
        int best = 1;
        double least = Double.MAX_VALUE;
        for (int splits = 1; splits <= most; splits++) {
            int blocks = strips * splits;
            double waves = (blocks + slots - 1) / slots;
            double cost = waves / blocks * (1 + 0.02 * splits);
            if (cost < least) {
                least = cost;
                best = splits;
            }
        }
        return best;
    }

    /** Chooses cublasLt's algorithms for steps of so many rows. */
    void measure(Stream stream, Activations a, int rows) {
        int padded = roundUp(rows);
        CudaWeights.Layer layer = weights.layers.getFirst();
        library.measure(
                stream, layer.qkv(), shape.qkv(), shape.hidden(), a.normed().address(), padded, a.qkv().address(),
                Result.NARROW);
        library.measure(
                stream, layer.output(), shape.hidden(), shape.queries(), a.attended().address(), padded,
                a.residual().address(), Result.WIDE_ADDED);
        library.measure(
                stream, layer.gateUp(), 2 * shape.intermediate(), shape.hidden(), a.normed().address(), padded,
                a.gateUp().address(), Result.NARROW);
        library.measure(
                stream, layer.down(), shape.hidden(), shape.intermediate(), a.activation().address(), padded,
                a.residual().address(), Result.WIDE_ADDED);
    }

    /** Chooses the algorithm of the output head for so many sampled rows. */
    void measureHead(Stream stream, Activations a, int sampled) {
        library.measure(
                stream, weights.head, shape.vocabulary(), shape.hidden(), a.normed().address(), roundUp(sampled),
                logits.address(), Result.WIDE);
    }

    @Override
    public void close() {
        partials.close();
    }
}
