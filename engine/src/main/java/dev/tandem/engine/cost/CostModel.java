package dev.tandem.engine.cost;

import dev.tandem.engine.executor.PiggybackedPrefill;
import java.util.EnumMap;
import java.util.Map;

/**
 * Predicts the seconds that the parts of a step take. Predictions start from a {@link Profile}; the times that the
 * executor measures correct them while serving. Each measured component has a factor, the moving average of measured
 * over profiled time; that of CPU attention is weighted by how much of it a step has. A component that is not measured
 * stays as profiled.
 *
 * <p>Owned by: engine thread; {@link #error()}, {@link #corrections()}, {@link #subBatchesFactor()},
 * {@link #measuredSubBatches()} and {@link #extrapolated()} may be read by any thread.
 */
public final class CostModel {
    /**
     * Weight of the newest step: the model learns half of a change in about 14 steps. For CPU attention that is the
     * weight of a step with as much of it as usual.
     */
    private static final double LEARNING_RATE = 0.05;
    /**
     * Weight of the profile in each step with an empty host, without in-flight tokens or with one batch: half of a
     * correction is forgotten in about as many steps as the guard measures at a time, so that offloading is tried
     * again. Not tuned.
     */
    private static final double FORGETTING_RATE = 1 / 1024.0;
    /**
     * Weight of a step in {@link #subBatchesFactor()}: half of a change is learned in about 90 steps. By the factor,
     * sequences enter the host and leave the GPU. In ten simulated half hours on imitated L4s, 1/512 changes tokens per
     * second by -2 to +1 % (trial builds of 60b9609).
     */
    private static final double SUB_BATCHES_RATE = 1 / 128.0;
    /** Bounds of what one step teaches of that factor, which was 0.99 to 1.08 in simulated runs; not tuned. */
    private static final double MIN_SUB_BATCHES_RATIO = 0.8;

    private static final double MAX_SUB_BATCHES_RATIO = 1.25;
    /** Bounds of measured over predicted time: a measurement beyond them is an outlier. */
    private static final double MIN_RATIO = 0.1;

    private static final double MAX_RATIO = 10;

    /** What the steps have taught about one component. */
    private static final class Correction {
        private volatile double factor = 1;
        private volatile boolean seen;

        /** @param ratio measured over predicted time */
        void observe(double ratio) {
            observe(ratio, seen ? LEARNING_RATE : 0.5);
        }

        void observe(double ratio, double weight) {
            factor = Math.clamp(factor * (1 + weight * (ratio - 1)), MIN_RATIO, MAX_RATIO);
            seen = true;
        }

        /** Moves towards what was profiled. */
        void forget() {
            double learned = factor;
            factor = learned + FORGETTING_RATE * (1 - learned);
        }
    }

    private final Profile profile;
    private final Correction linear = new Correction();
    private final Correction prefillAttention = new Correction();
    private final Correction gpuAttention = new Correction();
    private final Correction cpuAttention = new Correction();
    /** Profiled seconds of CPU attention in a step, a moving average over the steps that taught its correction. */
    private double usualCpuAttention;

    private final Correction inFlightAttention = new Correction();
    /** Tasks of in-flight tokens that the correction has not learned from, their context tokens, and their time. */
    private long inFlightTasks;

    private long inFlightTokens;
    private double inFlightSeconds;
    private final Correction transfer = new Correction();
    private final Correction preLayer = new Correction();
    private final Correction postLayer = new Correction();
    private final Correction subBatches = new Correction();
    /** Numbers of tokens for which the profile has a curve of CPU attention, ascending. */
    private final int[] cpuRows;

    private final Curve[] cpuCurves;
    private volatile double stepError;
    private long steps;
    private volatile long extrapolated;
    private long extrapolations;

    /** Creates a model that predicts the profiled times until it has learned from steps. */
    public CostModel(Profile profile) {
        this.profile = profile;
        this.cpuRows = profile.cpuAttention().keySet().stream()
                .mapToInt(Integer::intValue)
                .toArray();
        this.cpuCurves = profile.cpuAttention().values().toArray(Curve[]::new);
    }

    /** Number of layers of the profiled model. */
    public int layers() {
        return profile.layers();
    }

    /** Name of the profile. */
    public String name() {
        return profile.name();
    }

    /** What prompt tokens cost in decode steps. */
    public PiggybackedPrefill piggybacking() {
        return PiggybackedPrefill.of(
                this::linear, rows -> prefillAttention((long) rows * PiggybackedPrefill.CONTEXT), Integer.MAX_VALUE);
    }

    /** Seconds of one layer's GEMMs for {@code rows} tokens: T_l of NEO §3.2, T_glinear of APEX §3.2. */
    public double linear(int rows) {
        return corrected(linear, profile.linear(), rows);
    }

    /** Seconds of one layer's prefill attention; {@code pairs} counts pairs of query token and context token. */
    public double prefillAttention(long pairs) {
        return corrected(prefillAttention, profile.prefillAttention(), pairs);
    }

    /**
     * Seconds of one layer's decode attention on the GPU, for {@code tokens} of context in all: T_ga of NEO, T_gatt of
     * APEX.
     */
    public double gpuAttention(long tokens) {
        return corrected(gpuAttention, profile.gpuAttention(), tokens);
    }

    /**
     * Seconds of one layer's decode attention on the CPU, when a stage of the GPU waits for it: {@code rows} tokens
     * with {@code tokens} of context in all. T_ca of NEO §3.2.
     */
    public double cpuAttention(int rows, long tokens) {
        return profiledAttention(rows, tokens) * cpuAttention.factor;
    }

    /**
     * Seconds of one layer's attention for in-flight tokens. Its correction is learned from their own tasks. That of
     * stages which the GPU waits for is not valid for them: there prefill offloads run at the same time and the slowest
     * worker counts, while in-flight tokens are independent tasks.
     */
    public double inFlightAttention(int rows, long tokens) {
        return profiledAttention(rows, tokens) * inFlightAttention.factor;
    }

    /**
     * Learns from the tasks of in-flight tokens that the CPU computed during a step, each time that these are as many
     * as there are workers.
     *
     * @param tasks attention of a token in a layer
     * @param tokens of context, of all tasks
     * @param measured seconds that a worker was busy, on average
     */
    public void observeInFlight(long tasks, long tokens, double measured) {
        inFlightTasks += tasks;
        inFlightTokens += tokens;
        inFlightSeconds += measured;
        int workers = cpuRows[Math.min(1, cpuRows.length - 1)];
        if (inFlightTasks < workers) {
            return;
        }
        double round = profiledAttention(workers, inFlightTokens * workers / inFlightTasks);
        double predicted = inFlightAttention.factor * round * inFlightTasks / workers;
        if (inFlightSeconds > 0 && predicted > 0) {
            // never half at once: the first tasks run code that is not compiled yet
            inFlightAttention.observe(Math.clamp(inFlightSeconds / predicted, MIN_RATIO, MAX_RATIO), LEARNING_RATE);
        }
        inFlightTasks = 0;
        inFlightTokens = 0;
        inFlightSeconds = 0;
    }

    /** Notes a step without in-flight tokens: what was learned of them may not hold for the next ones. */
    public void noInFlight() {
        inFlightAttention.forget();
    }

    /** Notes a step in which no sequence is on the host, likewise. */
    public void hostIsEmpty() {
        cpuAttention.forget();
    }

    private double profiledAttention(int rows, long tokens) {
        if (rows <= 0) {
            return 0;
        }
        double context = (double) tokens / rows;
        int last = cpuRows.length - 1;
        int right = 0;
        while (right < last && cpuRows[right] < rows) {
            right++;
        }
        double seconds;
        if (right == 0 || cpuRows[right] == rows) {
            seconds = cpuCurves[right].at(context) * Math.max(1, (double) rows / cpuRows[right]);
        } else {
            double low = cpuCurves[right - 1].at(context);
            double slope = Math.max(0, cpuCurves[right].at(context) - low) / (cpuRows[right] - cpuRows[right - 1]);
            seconds = low + slope * (rows - cpuRows[right - 1]);
        }
        if (rows > cpuRows[last] || !cpuCurves[right].covers(context)) {
            noteExtrapolation();
        }
        return seconds;
    }

    /** Seconds of moving {@code bytes} of KV, of all layers, from one tier to the other. */
    public double transfer(long bytes) {
        return corrected(transfer, profile.transfer(), bytes);
    }

    /** Seconds of the embedding of {@code rows} tokens. */
    public double preLayer(int rows) {
        return corrected(preLayer, profile.preLayer(), rows);
    }

    /** Seconds of logits and sampling for {@code outputs} tokens. */
    public double postLayer(int outputs) {
        return corrected(postLayer, profile.postLayer(), outputs);
    }

    /**
     * Measured over predicted time of steps of two sub-batches without prompts and swaps; 1 until one is measured. The
     * predictions of this model and of single steps do not contain it.
     */
    public double subBatchesFactor() {
        return subBatches.factor;
    }

    /** Constant seconds per step. */
    public double stepOverhead() {
        return profile.stepOverhead();
    }

    /** Factor by which a GPU step takes longer while the CPU computes attention. */
    public double hostLoad() {
        return profile.hostLoad();
    }

    /** Constant seconds per stage of a layer that waits for the CPU. */
    public double stageOverhead() {
        return profile.stageOverhead();
    }

    /** Constant seconds per layer of the way to the CPU and back. */
    public double tripOverhead() {
        return profile.tripOverhead();
    }

    /** Constant seconds of the GPU per layer for each host token that a stage waits for. */
    public double tokenOverhead() {
        return profile.tokenOverhead();
    }

    private double corrected(Correction correction, Curve curve, double size) {
        if (!curve.covers(size)) {
            noteExtrapolation();
        }
        return curve.at(size) * correction.factor;
    }

    private Correction correction(Component component) {
        return switch (component) {
            case LINEAR -> linear;
            case PREFILL_ATTENTION -> prefillAttention;
            case GPU_ATTENTION -> gpuAttention;
            case CPU_ATTENTION -> cpuAttention;
            case IN_FLIGHT_ATTENTION -> inFlightAttention;
            case TRANSFER -> transfer;
            case PRE_LAYER -> preLayer;
            case POST_LAYER -> postLayer;
        };
    }

    /**
     * Learns from a step of two sub-batches without prompts and swaps.
     *
     * @param predicted seconds, without {@link #subBatchesFactor()}
     * @param measured seconds; 0 where the step was not measured
     */
    public void observeSubBatches(double predicted, double measured) {
        if (!(predicted > 0) || !(measured > 0)) {
            return;
        }
        double ratio = Math.clamp(measured / predicted, MIN_SUB_BATCHES_RATIO, MAX_SUB_BATCHES_RATIO);
        subBatches.observe(ratio / subBatches.factor, SUB_BATCHES_RATE);
    }

    /** Notes a step without two sub-batches: the factor may not hold for the next ones. */
    public void noSubBatches() {
        subBatches.forget();
    }

    /** Whether a step has taught {@link #subBatchesFactor()}. */
    public boolean measuredSubBatches() {
        return subBatches.seen;
    }

    private void noteExtrapolation() {
        extrapolations++;
    }

    /**
     * Learns from a component of a completed step.
     *
     * @param predicted seconds that this model predicted; 0 when the step did not have the component
     * @param measured seconds that the component took; 0 when it was not measured
     */
    public void observe(Component component, double predicted, double measured) {
        if (!(predicted > 0) || !(measured > 0)) {
            return;
        }
        double ratio = Math.clamp(measured / predicted, MIN_RATIO, MAX_RATIO);
        if (component == Component.CPU_ATTENTION) {
            observeCpuAttention(predicted / cpuAttention.factor, ratio);
        } else {
            correction(component).observe(ratio);
        }
    }

    /**
     * Weighs a step by its CPU attention, so that the correction is of the time spent. A step of few host tokens has
     * more of what every stage takes. The first step counts no more than others, because it may have few. The first
     * full step after such ones counts most, because it is most of the time spent; no weight exceeds 1 (ADR 121).
     */
    private void observeCpuAttention(double profiled, double ratio) {
        double usual = cpuAttention.seen ? usualCpuAttention : profiled;
        usualCpuAttention = usual + LEARNING_RATE * (profiled - usual);
        cpuAttention.observe(ratio, LEARNING_RATE * profiled / usualCpuAttention);
    }

    /** Learns by how much the prediction of a whole step was wrong; both arguments are seconds. */
    public void observeStep(double predicted, double achieved) {
        extrapolated = extrapolations;
        if (predicted > 0 && achieved > 0) {
            double deviation = Math.abs(Math.clamp(achieved / predicted, MIN_RATIO, MAX_RATIO) - 1);
            double before = stepError;
            stepError = before + (steps++ == 0 ? 1 : LEARNING_RATE) * (deviation - before);
        }
    }

    /** Moving average of the relative error of whole steps: 0.1 is ten per cent. */
    public double error() {
        return stepError;
    }

    /** Measured over profiled time of each component that was measured. */
    public Map<Component, Double> corrections() {
        Map<Component, Double> all = new EnumMap<>(Component.class);
        for (Component component : Component.values()) {
            Correction correction = correction(component);
            if (correction.seen) {
                all.put(component, correction.factor);
            }
        }
        return all;
    }

    /** Number of predictions beyond the profiled sizes, as of the last completed step. */
    public long extrapolated() {
        return extrapolated;
    }
}
