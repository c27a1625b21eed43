package dev.tandem.cuda;

import dev.tandem.cuda.GemmPlan.Method;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Graph;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.kernels.AutotuneCache;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.engine.strategy.PiggybackedPrefill;
import dev.tandem.model.config.ModelConfig;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.IntStream;

/**
 * Chooses who computes which products: what an earlier start kept, else what is measured fastest now.
 *
 * <p>Owned by: the executor, before it serves.
 */
final class GemmAutotuner {
    /** Kernels that are chosen among, or whose time counts in the choice. */
    private static final List<String> SOURCES = List.of("rows", "gemv_tma", "gemv", "gemm_wgmma", "gemm_swiglu");

    private static final int ROUNDS = 5;
    private static final int GATE_UP_ROUNDS = 3;
    private static final int MIN_PROMPT_ROWS = 1024;

    private final CudaForward forward;
    private final AutotuneCache choices;

    GemmAutotuner(CudaForward forward, AutotuneCache choices) {
        this.forward = forward;
        this.choices = choices;
    }

    /** All that decides which products are fastest, and which of them are measured. */
    static String identity(Device device, CublasLt library, ModelShape shape, CudaOptions options) {
        ModelConfig config = shape.config();
        return String.format(
                Locale.ROOT,
                "%s, %d multiprocessors; driver for CUDA %d, cublasLt %d, kernels %s; %s, %d layers, %d wide, %d within, %d and %d heads of %d,"
                        + " vocabulary %d; steps of up to %d rows, %d sequences, host tier %s",
                device.name(),
                device.multiprocessors(),
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
                shape.vocabulary(),
                options.maxBatchTokens(),
                options.maxSequences(),
                options.attentionThreads() > 0);
    }

    /**
     * cublasLt's algorithms, for all numbers of rows that it is asked for; overwrites the activations.
     *
     * @param graphRows most rows of steps that are replayed from graphs
     * @param sampled rows that there are logits for
     * @param max rows of a step
     * @param slots of in-flight tokens, which a step may have besides
     */
    void algorithms(Stream stream, int graphRows, int sampled, int max, int slots) {
        GemmPlan linear = forward.linear();
        for (int rows = Kernels.GEMV_MAX_ROWS; rows <= graphRows; rows += GraphCache.BUCKET_STEP) {
            linear.measure(stream, forward.activations(), rows);
            if (rows <= GemmPlan.roundUp(sampled)) {
                linear.measureHead(stream, forward.activations(), rows);
            }
        }
        for (int rows = MIN_PROMPT_ROWS; rows < max; rows *= 2) {
            linear.measure(stream, forward.activations(), rows);
        }
        // prompts that wait fill steps to the last token
        linear.measure(stream, forward.activations(), max);
        for (int rows = GemmPlan.ROW_STEP; rows <= GemmPlan.roundUp(max + slots); rows += GemmPlan.ROW_STEP) {
            linear.load(stream, forward.activations(), rows);
            if (rows <= GemmPlan.roundUp(sampled)) {
                linear.loadHead(stream, forward.activations(), rows);
            }
        }
        forward.activations().clear(stream);
    }

    /**
     * For each number of rows that has kernels of our own and fits {@code inputs}, takes the method whose products and
     * activations of all layers need least time.
     */
    void methods(StepTimer timer, StepBuffer inputs) {
        GemmPlan linear = forward.linear();
        for (int rows : linear.choices()) {
            if (rows > inputs.rowCapacity()) {
                break;
            }
            linear.choose(
                    rows,
                    Method.valueOf(choices.of(
                            "products/" + rows,
                            () -> fastest(timer, inputs, rows).name())));
        }
    }

    /**
     * Methods take turns and the least time of each counts: whatever disturbs a machine that has just begun, disturbs
     * one round.
     */
    private Method fastest(StepTimer timer, StepBuffer inputs, int rows) {
        GemmPlan linear = forward.linear();
        int sampled = rows <= Kernels.GEMV_MAX_ROWS ? rows : StepTimer.FEW_ROWS;
        List<Method> methods = linear.available(rows);
        List<Graph> graphs = new ArrayList<>();
        for (Method method : methods) {
            linear.choose(rows, method);
            graphs.add(timer.gemms(inputs, rows, sampled));
        }
        double[] min = new double[methods.size()];
        Arrays.fill(min, Double.MAX_VALUE);
        for (int i = 0; i < ROUNDS * min.length; i++) {
            int method = i % min.length;
            min[method] = Math.min(min[method], timer.launched(graphs.get(method)));
        }
        graphs.forEach(Graph::close);
        return methods.get(IntStream.range(0, min.length)
                .boxed()
                .min(Comparator.comparingDouble(method -> min[method]))
                .orElseThrow());
    }

    /** For which numbers of rows, of up to {@code max}, gate, up and activation are one kernel's. */
    void manyRows(StepTimer timer, int max) {
        GemmPlan linear = forward.linear();
        if (!linear.many() || max < GemmPlan.PAIR_ROWS) {
            return;
        }
        SortedMap<Integer, Double> apart = new TreeMap<>();
        SortedMap<Integer, Double> together = new TreeMap<>();
        for (int rows = GemmPlan.PAIR_ROWS; rows / 2 < max; rows *= 2) {
            int count = Math.min(rows, max);
            String[] millis = choices.of("gate-up/" + count, () -> gateUpBothWays(timer, count))
                    .split(" ");
            apart.put(count, Double.valueOf(millis[0]));
            together.put(count, Double.valueOf(millis[1]));
        }
        linear.choose(SwigluCrossover.of(apart, together, linear::manyTurns));
    }

    /** Milliseconds of either way, by turns, the least of each: apart, then together. */
    private String gateUpBothWays(StepTimer timer, int rows) {
        double apart = Double.MAX_VALUE;
        double together = Double.MAX_VALUE;
        for (int round = 0; round < GATE_UP_ROUNDS; round++) {
            forward.linear().choose(SwigluCrossover.NEVER);
            apart = Math.min(apart, timer.gateUp(rows));
            forward.linear().choose(SwigluCrossover.ALWAYS);
            together = Math.min(together, timer.gateUp(rows));
        }
        return apart + " " + together;
    }

    /** Most rows of decode steps in which prompts ride, of up to {@code max}. */
    int piggybackedTokens(StepTimer timer, StepBuffer inputs, int max) {
        String rows = choices.of(
                "riding", () -> Integer.toString(PiggybackedPrefill.of(count -> timer.gemms(inputs, count), max)));
        return Integer.parseInt(rows);
    }

    /** For the next start. */
    void keep() {
        choices.keep();
    }

    /** Which products decode steps use, and when that was measured. */
    String text() {
        return "products of decode steps, " + choices.origin() + ": "
                + forward.linear().chosen();
    }
}
