package dev.tandem.cuda.kernels;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.CudaException;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * Products {@code out[rows][n] = x[rows][depth] weights[n][depth]^T (+ out)} by cublasLt. The algorithm of a shape is chosen
 * when the shape is first seen: by measuring the library's candidates when {@link #measure} was called for it, else the
 * library's first.
 *
 * <p>Owned by: the executor's thread.
 */
public final class MatrixProducts implements AutoCloseable {
    private static final int CANDIDATES = 8;
    /** More rows are bound by arithmetic, and their products long: one measurement does. */
    public static final int MANY_ROWS = 512;
    /** Measurements of a candidate, in turns with the others; the median counts. */
    private static final int ROUNDS = 5;
    /** Runs of a measurement, one after the other so that launches do not show, each with other weights. */
    private static final int REPEATS = 4;
    private static final long WORKSPACE_BYTES = 64L << 20;

    public enum Result {
        /** 16-bit values. */
        NARROW,
        /** fp32 values. */
        WIDE,
        /** fp32 values, added to what is there. */
        WIDE_ADDED
    }

    private record Shape(int rows, int n, int depth, Result result) {}

    private record Plan(MemorySegment description, MemorySegment a, MemorySegment b, MemorySegment c, MemorySegment algorithm) {}

    private final CublasLt library;
    private final Arena arena = Arena.ofShared();
    private final Device device;
    private final MemorySegment handle;
    private final MemorySegment preference;
    private final DeviceBuffer workspace;
    private final MemorySegment one = arena.allocateFrom(JAVA_FLOAT, 1f);
    private final MemorySegment zero = arena.allocateFrom(JAVA_FLOAT, 0f);
    private final int type;
    private final Map<Shape, Plan> plans = new HashMap<>();

    public MatrixProducts(CublasLt library, Device device, DataType type) {
        this.library = library;
        this.device = device;
        this.type = type == DataType.BFLOAT16 ? CublasLt.CUDA_R_16BF : CublasLt.CUDA_R_16F;
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtCreate.call(word);
        this.handle = word.get(ADDRESS, 0);
        library.cublasLtMatmulPreferenceCreate.call(word);
        this.preference = word.get(ADDRESS, 0);
        library.cublasLtMatmulPreferenceSetAttribute.call(
                preference, CublasLt.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, arena.allocateFrom(JAVA_LONG, WORKSPACE_BYTES), 8L);
        this.workspace = device.allocate(WORKSPACE_BYTES, "workspace of matrix products");
    }

    public long workspaceBytes() {
        return WORKSPACE_BYTES;
    }

    /** Enqueues a product. */
    public void multiply(Stream stream, long weights, int n, int depth, long x, int rows, long out, Result result) {
        Plan plan = plans.computeIfAbsent(new Shape(rows, n, depth, result), shape -> plan(shape, 0));
        run(stream, plan, weights, x, out, result);
    }

    private void run(Stream stream, Plan plan, long weights, long x, long out, Result result) {
        int code = library.cublasLtMatmul.code(
                handle, plan.description(), one, weights, plan.a(), x, plan.b(), result == Result.WIDE_ADDED ? one : zero, out,
                plan.c(), out, plan.c(), plan.algorithm(), workspace.address(), WORKSPACE_BYTES, stream.handle());
        if (code != 0) {
            throw new CudaException("cublasLtMatmul failed with status " + code);
        }
    }

    /**
     * Times the library's candidates for a shape on the given memory and keeps the fastest.
     *
     * @param weights matrices of different layers, so that they are read from memory as in a step, not from the cache
     * @param x of few rows random values, as in a step
     */
    public void measure(Stream stream, List<Long> weights, int n, int depth, long x, int rows, long out, Result result) {
        Shape shape = new Shape(rows, n, depth, result);
        if (plans.containsKey(shape)) {
            return;
        }
        List<Plan> candidates = IntStream.range(0, CANDIDATES).mapToObj(nth -> plan(shape, nth)).takeWhile(Objects::nonNull).toList();
        if (candidates.isEmpty()) {
            throw new CudaException("cublasLt has no algorithm for " + shape);
        }
        float[][] times = new float[candidates.size()][rows > MANY_ROWS ? 1 : ROUNDS];
        try (Event begin = device.event();
                Event end = device.event()) {
            // loads the kernels
            candidates.forEach(candidate -> run(stream, candidate, weights.getFirst(), x, out, result));
            for (int round = 0; round < times[0].length; round++) {
                for (int candidate = 0; candidate < times.length; candidate++) {
                    stream.record(begin);
                    for (int repeat = 0; repeat < REPEATS; repeat++) {
                        run(stream, candidates.get(candidate), weights.get(repeat % weights.size()), x, out, result);
                    }
                    stream.record(end);
                    stream.synchronise();
                    times[candidate][round] = end.millisecondsSince(begin);
                }
            }
        }
        int best = IntStream.range(0, times.length).boxed().min(Comparator.comparingDouble(i -> median(times[i]))).orElseThrow();
        plans.put(shape, candidates.get(best));
    }

    private static float median(float[] values) {
        float[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    /** The library's nth algorithm for a shape; null when it has fewer. */
    private Plan plan(Shape shape, int candidate) {
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtMatmulDescCreate.call(word, CublasLt.CUBLAS_COMPUTE_32F, CublasLt.CUDA_R_32F);
        MemorySegment description = word.get(ADDRESS, 0);
        // column-major, as the library sees it: out^T [n, rows] = (weights^T)^T x^T
        set(description, CublasLt.CUBLASLT_MATMUL_DESC_TRANSA, CublasLt.CUBLAS_OP_T);
        set(description, CublasLt.CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, device.multiprocessors());
        MemorySegment a = layout(type, shape.depth(), shape.n(), shape.depth());
        MemorySegment b = layout(type, shape.depth(), shape.rows(), shape.depth());
        MemorySegment c = layout(shape.result() == Result.NARROW ? type : CublasLt.CUDA_R_32F, shape.n(), shape.rows(), shape.n());
        MemorySegment results = arena.allocate((long) CublasLt.HEURISTIC_RESULT_BYTES * CANDIDATES, 8);
        MemorySegment count = arena.allocate(JAVA_INT);
        library.cublasLtMatmulAlgoGetHeuristic.call(
                handle, description, a, b, c, c, preference, candidate + 1, results, count);
        if (count.get(JAVA_INT, 0) <= candidate) {
            if (candidate == 0) {
                throw new CudaException("cublasLt has no algorithm for " + shape);
            }
            return null;
        }
        MemorySegment result = results.asSlice((long) CublasLt.HEURISTIC_RESULT_BYTES * candidate);
        return result.get(JAVA_INT, CublasLt.HEURISTIC_STATE_OFFSET) == 0 ? new Plan(description, a, b, c, result) : null;
    }

    private void set(MemorySegment description, int attribute, int value) {
        library.cublasLtMatmulDescSetAttribute.call(description, attribute, arena.allocateFrom(JAVA_INT, value), 4L);
    }

    private MemorySegment layout(int element, long rows, long columns, long leading) {
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtMatrixLayoutCreate.call(word, element, rows, columns, leading);
        return word.get(ADDRESS, 0);
    }

    @Override
    public void close() {
        for (Plan plan : plans.values()) {
            library.cublasLtMatmulDescDestroy.call(plan.description());
            library.cublasLtMatrixLayoutDestroy.call(plan.a());
            library.cublasLtMatrixLayoutDestroy.call(plan.b());
            library.cublasLtMatrixLayoutDestroy.call(plan.c());
        }
        library.cublasLtMatmulPreferenceDestroy.call(preference);
        library.cublasLtDestroy.call(handle);
        workspace.close();
        arena.close();
    }
}
