package dev.tandem.cuda.gemm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.gemm.Gemm.Result;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * Runs GEMMs {@code out[rows][n] = x[rows][depth] weights[n][depth]^T (+ out)} by cublasLt. The algorithm of a shape is
 * chosen once: {@link #measure} takes the one that an earlier start kept, or measures the library's candidates; without
 * it, a shape takes the algorithm that was measured for a few more rows, or else the library's first candidate.
 *
 * <p>Owned by: the executor's thread.
 */
public final class CublasLtGemm implements AutoCloseable {
    private static final int CANDIDATES = 8;
    /**
     * Max rows whose candidates are measured several times. Larger GEMMs are bound by arithmetic and take long, so that
     * one measurement is precise.
     */
    public static final int MANY_ROWS = 512;
    /** Measurements per candidate, in turns with the others; the median counts. */
    private static final int ROUNDS = 5;
    /** Runs per measurement, back to back to hide launch times, each with another layer's weights. */
    private static final int REPEATS = 4;

    /**
     * Max fraction of further rows for which an algorithm was measured that a shape takes over. Not tuned: measured row
     * counts are at most this far apart up to 2,048.
     */
    private static final double MORE_ROWS = 0.25;

    private static final long WORKSPACE_BYTES = 64L << 20;

    private record Shape(int rows, int n, int depth, Result result) {
        static Shape of(Gemm gemm, int rows) {
            return new Shape(rows, gemm.shape().n(), gemm.shape().depth(), gemm.result());
        }
    }

    private record Description(MemorySegment operation, MemorySegment a, MemorySegment b, MemorySegment c) {}

    private record Plan(Description description, MemorySegment algorithm) {}

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
    private final Map<Shape, MemorySegment> measured = new HashMap<>();
    /** Results and algorithms that {@link #load} has run. */
    private final Set<String> loaded = new HashSet<>();

    private final AlgorithmStore choices;

    /** @param choices of this library, device and type */
    public CublasLtGemm(CublasLt library, Device device, DataType type, AlgorithmStore choices) {
        this.choices = choices;
        this.library = library;
        this.device = device;
        this.type = type == DataType.BFLOAT16 ? CublasLt.CUDA_R_16BF : CublasLt.CUDA_R_16F;
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtCreate.call(word);
        this.handle = word.get(ADDRESS, 0);
        library.cublasLtMatmulPreferenceCreate.call(word);
        this.preference = word.get(ADDRESS, 0);
        library.cublasLtMatmulPreferenceSetAttribute.call(
                preference,
                CublasLt.CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                arena.allocateFrom(JAVA_LONG, WORKSPACE_BYTES),
                8L);
        this.workspace = device.allocate(WORKSPACE_BYTES, "workspace of GEMMs");
    }

    public long workspaceBytes() {
        return WORKSPACE_BYTES;
    }

    /** Enqueues a GEMM. */
    public void multiply(Stream stream, Gemm gemm, int rows) {
        Plan plan = plan(Shape.of(gemm, rows));
        run(stream, plan.description(), plan.algorithm(), gemm, gemm.weights());
    }

    /**
     * Chooses the algorithm of a shape as {@link #multiply} would, and runs it unless the same one has run. The library
     * loads a kernel at its first launch. Loading may wait for running kernels, and these may wait for the host, which
     * would be a deadlock while serving.
     */
    public void load(Stream stream, Gemm gemm, int rows) {
        Plan plan = plan(Shape.of(gemm, rows));
        if (loaded.add(gemm.result() + " " + text(plan.algorithm()))) {
            run(stream, plan.description(), plan.algorithm(), gemm, gemm.weights());
        }
    }

    private Plan plan(Shape wanted) {
        return plans.computeIfAbsent(wanted, shape -> {
            Description description = describe(shape);
            MemorySegment algorithm = measuredForMoreRows(shape, description)
                    .orElseGet(() -> candidates(shape, description, 1).getFirst());
            return new Plan(description, algorithm);
        });
    }

    private Optional<MemorySegment> measuredForMoreRows(Shape shape, Description description) {
        int last = (int) ((1 + MORE_ROWS) * shape.rows());
        for (int rows = shape.rows() + 1; rows <= last; rows++) {
            MemorySegment algorithm = measured.get(new Shape(rows, shape.n(), shape.depth(), shape.result()));
            if (algorithm != null) {
                return restored(description, text(algorithm));
            }
        }
        return Optional.empty();
    }

    private static String text(MemorySegment algorithm) {
        return HexFormat.of()
                .formatHex(algorithm.asSlice(0, CublasLt.ALGORITHM_BYTES).toArray(JAVA_BYTE));
    }

    /** @param weights those of the GEMM, or another layer's of the same shape */
    private void run(Stream stream, Description description, MemorySegment algorithm, Gemm gemm, long weights) {
        long out = gemm.out().address();
        int code = library.cublasLtMatmul.code(
                handle,
                description.operation(),
                one,
                weights,
                description.a(),
                gemm.x().address(),
                description.b(),
                gemm.result() == Result.WIDE_ADDED ? one : zero,
                out,
                description.c(),
                out,
                description.c(),
                algorithm,
                workspace.address(),
                WORKSPACE_BYTES,
                stream.handle());
        if (code != 0) {
            throw new CudaException("cublasLtMatmul failed with status " + code);
        }
    }

    /**
     * Takes the algorithm that was kept for a shape, else times the library's candidates on the given memory and keeps
     * the fastest.
     *
     * @param gemm whose x holds random values for few rows, as in a step
     * @param weights matrices of different layers, so that they are read from memory as in a step, rather than from the
     *     L2 cache
     */
    public void measure(Stream stream, Gemm gemm, List<Long> weights, int rows) {
        Shape shape = Shape.of(gemm, rows);
        if (plans.containsKey(shape)) {
            return;
        }
        Description description = describe(shape);
        String name = "cublasLt/" + rows + "x" + shape.n() + "x" + shape.depth() + "/" + shape.result();
        Optional<MemorySegment> restored = choices.find(name).flatMap(kept -> restored(description, kept));
        // runs once: the library loads kernels at their first launch, which is impossible while a graph is captured
        restored.ifPresent(kept -> run(stream, description, kept, gemm, weights.getFirst()));
        MemorySegment algorithm = restored.orElseGet(() -> {
            MemorySegment fastest = fastest(
                    stream,
                    candidates(shape, description, CANDIDATES),
                    rows > MANY_ROWS ? 1 : ROUNDS,
                    (candidate, matrix) ->
                            run(stream, description, candidate, gemm, weights.get(matrix % weights.size())));
            choices.put(name, text(fastest));
            return fastest;
        });
        measured.put(shape, algorithm);
        plans.put(shape, new Plan(description, algorithm));
    }

    /** Runs a candidate over one of the matrices. */
    private interface Trial {
        void run(MemorySegment candidate, int matrix);
    }

    private MemorySegment fastest(Stream stream, List<MemorySegment> candidates, int rounds, Trial trial) {
        float[][] times = new float[candidates.size()][rounds];
        try (Event begin = device.event();
                Event end = device.event()) {
            // loads the kernels
            candidates.forEach(candidate -> trial.run(candidate, 0));
            for (int round = 0; round < rounds; round++) {
                for (int candidate = 0; candidate < times.length; candidate++) {
                    stream.record(begin);
                    for (int repeat = 0; repeat < REPEATS; repeat++) {
                        trial.run(candidates.get(candidate), repeat);
                    }
                    stream.record(end);
                    stream.synchronise();
                    times[candidate][round] = end.millisecondsSince(begin);
                }
            }
        }
        return candidates.get(IntStream.range(0, times.length)
                .boxed()
                .min(Comparator.comparingDouble(i -> median(times[i])))
                .orElseThrow());
    }

    /** The algorithm that was kept; empty when the library does not support it for this GEMM. */
    private Optional<MemorySegment> restored(Description description, String kept) {
        if (kept.length() != 2 * CublasLt.ALGORITHM_BYTES) {
            return Optional.empty();
        }
        MemorySegment algorithm = arena.allocate(CublasLt.ALGORITHM_BYTES, 8)
                .copyFrom(MemorySegment.ofArray(HexFormat.of().parseHex(kept)));
        MemorySegment checked = arena.allocate(CublasLt.HEURISTIC_RESULT_BYTES, 8);
        int code = library.cublasLtMatmulAlgoCheck.code(
                handle,
                description.operation(),
                description.a(),
                description.b(),
                description.c(),
                description.c(),
                algorithm,
                checked);
        boolean runs = code == 0
                && checked.get(JAVA_INT, CublasLt.HEURISTIC_STATE_OFFSET) == 0
                && checked.get(JAVA_LONG, CublasLt.HEURISTIC_WORKSPACE_OFFSET) <= WORKSPACE_BYTES;
        return runs ? Optional.of(algorithm) : Optional.empty();
    }

    private static float median(float[] values) {
        float[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    private Description describe(Shape shape) {
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtMatmulDescCreate.call(word, CublasLt.CUBLAS_COMPUTE_32F, CublasLt.CUDA_R_32F);
        MemorySegment operation = word.get(ADDRESS, 0);
        // column-major, as the library sees it: out^T [n, rows] = (weights^T)^T x^T
        set(operation, CublasLt.CUBLASLT_MATMUL_DESC_TRANSA, CublasLt.CUBLAS_OP_T);
        set(operation, CublasLt.CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, device.multiprocessors());
        return new Description(
                operation,
                layout(type, shape.depth(), shape.n(), shape.depth()),
                layout(type, shape.depth(), shape.rows(), shape.depth()),
                layout(
                        shape.result() == Result.NARROW ? type : CublasLt.CUDA_R_32F,
                        shape.n(),
                        shape.rows(),
                        shape.n()));
    }

    /**
     * The library's candidates for a shape, at least one and up to {@code max}, the one that it predicts fastest first.
     */
    private List<MemorySegment> candidates(Shape shape, Description description, int max) {
        MemorySegment results = arena.allocate((long) CublasLt.HEURISTIC_RESULT_BYTES * max, 8);
        MemorySegment count = arena.allocate(JAVA_INT);
        library.cublasLtMatmulAlgoGetHeuristic.call(
                handle,
                description.operation(),
                description.a(),
                description.b(),
                description.c(),
                description.c(),
                preference,
                max,
                results,
                count);
        List<MemorySegment> candidates = IntStream.range(0, count.get(JAVA_INT, 0))
                .mapToObj(nth ->
                        results.asSlice((long) CublasLt.HEURISTIC_RESULT_BYTES * nth, CublasLt.HEURISTIC_RESULT_BYTES))
                .takeWhile(result -> result.get(JAVA_INT, CublasLt.HEURISTIC_STATE_OFFSET) == 0)
                .toList();
        if (candidates.isEmpty()) {
            throw new CudaException("cublasLt has no algorithm for " + shape);
        }
        return candidates;
    }

    private void set(MemorySegment operation, int attribute, int value) {
        library.cublasLtMatmulDescSetAttribute.call(operation, attribute, arena.allocateFrom(JAVA_INT, value), 4L);
    }

    private MemorySegment layout(int element, long rows, long columns, long leading) {
        MemorySegment word = arena.allocate(ADDRESS);
        library.cublasLtMatrixLayoutCreate.call(word, element, rows, columns, leading);
        return word.get(ADDRESS, 0);
    }

    @Override
    public void close() {
        List<AutoCloseable> all = new ArrayList<>();
        for (Plan plan : plans.values()) {
            all.add(() ->
                    library.cublasLtMatmulDescDestroy.call(plan.description().operation()));
            all.add(() ->
                    library.cublasLtMatrixLayoutDestroy.call(plan.description().a()));
            all.add(() ->
                    library.cublasLtMatrixLayoutDestroy.call(plan.description().b()));
            all.add(() ->
                    library.cublasLtMatrixLayoutDestroy.call(plan.description().c()));
        }
        all.add(() -> library.cublasLtMatmulPreferenceDestroy.call(preference));
        all.add(() -> library.cublasLtDestroy.call(handle));
        all.add(workspace);
        all.add(arena);
        Resources.closeAll(all);
    }
}
