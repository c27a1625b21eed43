package dev.tandem.cuda.tune;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.forward.Activations;
import dev.tandem.cuda.forward.CudaForward;
import dev.tandem.cuda.gemm.GemmPlan;
import dev.tandem.cuda.gemm.GemmPlan.Method;
import dev.tandem.cuda.gemm.LayerGemms;
import dev.tandem.cuda.gemm.SwigluCrossover;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.step.GraphCache;
import dev.tandem.cuda.step.StepBuffer;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.ProgressCounter;
import dev.tandem.model.config.ModelConfig;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.DoubleSupplier;
import java.util.stream.IntStream;

/**
 * Chooses the method of each GEMM: the choice that an earlier start kept, else the fastest measured now.
 *
 * <p>Owned by: the executor, before it serves.
 */
public final class GemmAutotuner {
    /** Sources of the kernels that are chosen among, or whose time counts in the choice. */
    private static final List<String> SOURCES = List.of(
            "rows", "gemv_tma", "gemv", "gemm_wgmma", "gemm_swiglu", "decode", "prefill", "prefill_wgmma", "tiles");

    private static final int ROUNDS = 5;
    private static final int GATE_UP_ROUNDS = 3;
    /** Rows of the decode steps that say whether attention asks for a large L1 cache. */
    private static final int CACHE_ROWS = 32;
    /**
     * Up to this, all row counts of prompt steps are measured, and beyond it fewer and fewer. On 8 multiprocessors the
     * library's first candidate for 512 rows took twice as long as the measured one for 448 (H100, 23d3346).
     */
    private static final int DENSE_ROWS = 1024;
    /** Distance of measured row counts from there to twice as many. */
    private static final int SPARSE_STEP = 4 * GemmPlan.ROW_STEP;

    private final LayerGemms gemms;
    private final AutotuneCache choices;
    private final Progress progress;
    private boolean largeL1Cache;

    /**
     * What steps hold.
     *
     * @param max rows of a step
     * @param decodes of them, at most
     * @param gpuBlocks of KV
     */
    public record Rows(int max, int decodes, int gpuBlocks) {}

    /** @param progress in row counts, both those measured and those kept by an earlier start */
    public GemmAutotuner(LayerGemms gemms, AutotuneCache choices, Progress progress) {
        this.gemms = gemms;
        this.choices = choices;
        this.progress = progress;
    }

    /** Everything that decides which GEMMs are fastest, which of them are measured, and what prompts cost. */
    public static String identity(
            Device device,
            CublasLt library,
            ModelShape shape,
            double bandwidthLimit,
            int maxRows,
            int maxSequences,
            boolean hostTier) {
        ModelConfig config = shape.config();
        return String.format(
                Locale.ROOT,
                "%s, %d multiprocessors%s; driver for CUDA %d, cublasLt %d, kernels %s; %s, %d layers, %d wide, "
                        + "%d within, %d and %d heads of %d, window %d,"
                        + " vocabulary %d; steps of up to %d rows, %d sequences, host tier %s",
                device.name(),
                device.multiprocessors(),
                bandwidthLimit > 0 ? ", " + bandwidthLimit + " bytes/us" : "",
                device.driverVersion(),
                library.version(),
                KernelCompiler.version(SOURCES),
                shape.type(),
                config.layers(),
                shape.hidden(),
                shape.intermediate(),
                config.heads(),
                config.kvHeads(),
                config.headDim(),
                shape.window(),
                shape.vocabulary(),
                maxRows,
                maxSequences,
                hostTier);
    }

    /**
     * Chooses cublasLt's algorithms for all row counts of steps; overwrites the activations.
     *
     * @param graphRows max rows of steps that are replayed from graphs
     * @param sampled rows that there are logits for
     * @param max rows of a step
     * @param slots of in-flight tokens, which a step may have besides
     */
    public void algorithms(Stream stream, Activations activations, int graphRows, int sampled, int max, int slots) {
        List<Integer> dense = denseRows(graphRows, max);
        List<Integer> sparse = sparseRows(max);
        ProgressCounter counter =
                new ProgressCounter(progress, "choosing GEMM algorithms", dense.size() + sparse.size());
        for (int rows : dense) {
            gemms.measure(stream, activations, rows);
            if (rows <= GemmPlan.roundUp(sampled)) {
                gemms.measureHead(stream, activations, rows);
            }
            counter.finished();
        }
        for (int rows : sparse) {
            gemms.measure(stream, activations, rows);
            counter.finished();
        }
        for (int rows = GemmPlan.ROW_STEP; rows <= GemmPlan.roundUp(max + slots); rows += GemmPlan.ROW_STEP) {
            gemms.load(stream, activations, rows);
            if (rows <= GemmPlan.roundUp(sampled)) {
                gemms.loadHead(stream, activations, rows);
            }
        }
        activations.clear(stream);
    }

    /** Row counts of replayed steps and of small prompt steps, all of which are measured. */
    static List<Integer> denseRows(int graphRows, int max) {
        int dense = Math.max(graphRows, Math.min(DENSE_ROWS, max));
        return IntStream.iterate(Kernels.GEMV_MAX_ROWS, rows -> rows <= dense, rows -> rows + GraphCache.BUCKET_STEP)
                .boxed()
                .toList();
    }

    /** Row counts of large prompt steps that are measured. The last is {@code max}, to which waiting prompts fill. */
    static List<Integer> sparseRows(int max) {
        IntStream below = IntStream.iterate(
                DENSE_ROWS, rows -> rows < max, rows -> rows + (rows < 2 * DENSE_ROWS ? SPARSE_STEP : rows));
        return IntStream.concat(below, IntStream.of(max)).boxed().toList();
    }

    /**
     * The fastest plan: for each number of rows the method whose decode step takes the least time, then for each number
     * of rows of the library whether gate, up and SwiGLU are one kernel. Attention counts, because the shared memory of
     * a GEMM's thread blocks leaves the kernels that follow more or less of an L1 cache. While methods are measured,
     * decode attention asks for a large one; after that, only if steps of the plan are shorter so. Methods are not
     * measured again if they are not.
     *
     * @param forward whose plan is the first
     * @param inputs numbers of rows beyond its capacity keep their method
     * @param steps what they hold
     * @param attention of decode steps
     */
    public GemmPlan plan(StepTimer timer, CudaForward forward, StepBuffer inputs, Rows steps, Kernel attention) {
        GemmPlan plan = forward.plan();
        List<Integer> decode = plan.choices().stream()
                .filter(rows -> rows <= inputs.rowCapacity())
                .toList();
        List<Integer> pairs = gemms.hasGemmSwiglu() ? pairRows(steps.max()) : List.of();
        ProgressCounter counter =
                new ProgressCounter(progress, "choosing GEMM methods", decode.size() + pairs.size() + 1);
        attention.preferL1Cache(true);
        for (int most : decode) {
            CudaForward current = forward.with(plan);
            StepTimer.ChoiceRows step = timer.choiceRows(most, steps.decodes(), steps.gpuBlocks());
            Method method = Method.valueOf(choices.of("gemm/" + step.key(), () -> {
                timer.fill(inputs, step, steps.gpuBlocks());
                return fastest(timer, current, inputs, most).name();
            }));
            plan = plan.with(most, method);
            counter.finished();
        }
        CudaForward chosen = forward.with(plan);
        StepTimer.ChoiceRows step =
                timer.choiceRows(Math.min(CACHE_ROWS, inputs.rowCapacity()), steps.decodes(), steps.gpuBlocks());
        largeL1Cache = Boolean.parseBoolean(choices.of("large-l1-cache/" + step.key(), () -> {
            timer.fill(inputs, step, steps.gpuBlocks());
            return Boolean.toString(isFasterWithLargeL1Cache(timer.of(chosen), inputs, step.rows(), attention));
        }));
        attention.preferL1Cache(largeL1Cache);
        counter.finished();
        return pairs.isEmpty() ? plan : plan.with(crossover(timer, chosen, pairs, counter));
    }

    /**
     * Whether decode steps of the rows that were written are shorter where attention asks for a large L1 cache. A graph
     * is captured anew for each, because it may keep what its kernels asked for.
     */
    private static boolean isFasterWithLargeL1Cache(StepTimer timer, StepBuffer inputs, int rows, Kernel attention) {
        double[] with = new double[ROUNDS];
        double[] without = new double[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            attention.preferL1Cache(true);
            with[round] = launched(timer, inputs, rows);
            attention.preferL1Cache(false);
            without[round] = launched(timer, inputs, rows);
        }
        return StepTimer.median(with) < StepTimer.median(without);
    }

    /** Milliseconds of a decode step, after one that is not timed. */
    private static double launched(StepTimer timer, StepBuffer inputs, int rows) {
        try (Graph graph = timer.decodes(inputs, rows, Math.min(rows, Kernels.GEMV_MAX_ROWS))) {
            timer.launched(graph);
            return timer.launched(graph);
        }
    }

    /**
     * The method with the shortest time. Methods take turns, and the median of each counts: a disturbance affects one
     * round, and beside the load of {@code --gpu-bandwidth-limit} a round may also be far too short. Of some 140 minima
     * of five steps one was 77 ms where the others of its kind were 91 to 94, and chose the wrong method.
     */
    private Method fastest(StepTimer timer, CudaForward forward, StepBuffer inputs, int rows) {
        int sampled = rows <= Kernels.GEMV_MAX_ROWS ? rows : StepTimer.FEW_ROWS;
        List<Method> methods = gemms.available(rows);
        List<Graph> graphs = new ArrayList<>();
        for (Method method : methods) {
            graphs.add(timer.of(forward.with(forward.plan().with(rows, method))).decodes(inputs, rows, sampled));
        }
        double[][] millis = new double[methods.size()][ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            for (int method = 0; method < millis.length; method++) {
                millis[method][round] = timer.launched(graphs.get(method));
            }
        }
        graphs.forEach(Graph::close);
        return methods.get(IntStream.range(0, millis.length)
                .boxed()
                .min(Comparator.comparingDouble(method -> StepTimer.median(millis[method])))
                .orElseThrow());
    }

    /** Row counts for which gate, up and SwiGLU are measured both ways; none where no step has enough rows. */
    static List<Integer> pairRows(int maxRows) {
        return maxRows < LayerGemms.PAIR_ROWS
                ? List.of()
                : IntStream.iterate(LayerGemms.PAIR_ROWS, rows -> rows / 2 < maxRows, rows -> 2 * rows)
                        .map(rows -> Math.min(rows, maxRows))
                        .boxed()
                        .toList();
    }

    private SwigluCrossover crossover(
            StepTimer timer, CudaForward forward, List<Integer> pairs, ProgressCounter counter) {
        SortedMap<Integer, Double> apart = new TreeMap<>();
        SortedMap<Integer, Double> together = new TreeMap<>();
        for (int rows : pairs) {
            String[] millis = choices.of("gate-up/" + rows, () -> gateUpBothWays(timer, forward, rows))
                    .split(" ");
            apart.put(rows, Double.valueOf(millis[0]));
            together.put(rows, Double.valueOf(millis[1]));
            counter.finished();
        }
        return SwigluCrossover.of(apart, together, gemms::gemmSwigluTurns);
    }

    /** Milliseconds of both ways, by turns, the median of each: two kernels, then one. */
    private static String gateUpBothWays(StepTimer timer, CudaForward forward, int rows) {
        StepTimer two = timer.of(forward.with(forward.plan().with(SwigluCrossover.NEVER)));
        StepTimer one = timer.of(forward.with(forward.plan().with(SwigluCrossover.ALWAYS)));
        double[] apart = new double[GATE_UP_ROUNDS];
        double[] together = new double[GATE_UP_ROUNDS];
        for (int round = 0; round < GATE_UP_ROUNDS; round++) {
            apart[round] = two.gateUp(rows);
            together[round] = one.gateUp(rows);
        }
        return StepTimer.median(apart) + " " + StepTimer.median(together);
    }

    /** What prompt tokens cost in decode steps of up to {@code max} rows. */
    public PiggybackedPrefill piggybacking(StepTimer timer, StepBuffer inputs, int max, int gpuBlocks) {
        int pool = gpuBlocks * ModelShape.BLOCK_TOKENS;
        return PiggybackedPrefill.of(
                rows -> millis("step/" + rows, () -> timer.gemms(inputs, rows)),
                rows -> {
                    int tokens = Math.min(rows, pool);
                    int before = Math.clamp(PiggybackedPrefill.CONTEXT - tokens / 2, 0, pool - tokens);
                    return millis(
                            "prompt/" + before + "+" + tokens,
                            () -> timer.promptAttention(inputs, before, tokens, gpuBlocks));
                },
                max);
    }

    private double millis(String choice, DoubleSupplier measured) {
        return Double.parseDouble(choices.of(choice, () -> Double.toString(measured.getAsDouble())));
    }

    /** Keeps the choices for the next start. */
    public void keep() {
        choices.keep();
    }

    /** Which methods compute the GEMMs of decode steps, and when these were measured. */
    public String text(GemmPlan plan) {
        return "GEMMs of decode steps, " + choices.origin() + ": " + plan.text()
                + (largeL1Cache ? "; decode attention with a large L1 cache" : "");
    }
}
