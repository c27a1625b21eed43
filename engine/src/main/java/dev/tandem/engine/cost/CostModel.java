package dev.tandem.engine.cost;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;

/**
 * Seconds of a step's parts: a {@link Profile}, corrected while serving by what the executor times of them. Each
 * component that is timed has its own factor, a moving average of measured over profiled, and its own error, what the
 * corrected prediction still missed by; the others stay as profiled.
 *
 * <p>Owned by: engine thread; {@link #error()} and {@link #extrapolated()} may be read by any.
 */
public final class CostModel {
    /** Weight of the newest step: half of a change is learnt in about 14 steps. */
    private static final double LEARNING = 0.05;
    /** Beyond these a measurement is an accident, not a machine. */
    private static final double MIN = 0.1;

    private static final double MAX = 10;

    private final Profile profile;
    private final double[] factor = new double[Component.values().length];
    private final double[] error = new double[Component.values().length];
    private final boolean[] seen = new boolean[Component.values().length];
    /** The profile's cpu-attention, by ascending rows. */
    private final int[] cpuRows;

    private final Curve[] cpuCurves;
    private volatile double stepError;
    private long steps;
    private volatile long extrapolated;
    private long extrapolations;

    /** Creates a model that predicts as profiled, until it learns. */
    public CostModel(Profile profile) {
        this.profile = profile;
        this.cpuRows = profile.cpuAttention().keySet().stream()
                .mapToInt(Integer::intValue)
                .toArray();
        this.cpuCurves = profile.cpuAttention().values().toArray(Curve[]::new);
        Arrays.fill(factor, 1);
    }

    /** Layers of the profiled model. */
    public int layers() {
        return profile.layers();
    }

    /** Name of the profile. */
    public String name() {
        return profile.name();
    }

    /** One layer's pre- and post-projection of {@code rows} rows: T_l of NEO §3.2, T_glinear of APEX §3.2. */
    public double linear(int rows) {
        return corrected(Component.LINEAR, profile.linear(), rows);
    }

    /** One layer; {@code pairs} of query row and context token. */
    public double prefillAttention(long pairs) {
        return corrected(Component.PREFILL_ATTENTION, profile.prefillAttention(), pairs);
    }

    /** One layer; decode rows with {@code tokens} of context together: T_ga of NEO, T_gatt of APEX. */
    public double gpuAttention(long tokens) {
        return corrected(Component.GPU_ATTENTION, profile.gpuAttention(), tokens);
    }

    /**
     * One layer of rows that a stage of the GPU waits for; {@code rows} decode rows with {@code tokens} of context
     * together: T_ca of NEO §3.2.
     */
    public double cpuAttention(int rows, long tokens) {
        return inFlightAttention(rows, tokens) * factor[Component.CPU_ATTENTION.ordinal()];
    }

    /**
     * One layer of as many in-flight tokens, as profiled: what corrects stages, beside which prompts land and where the
     * slowest worker counts, is not true of tasks that nobody waits for.
     */
    public double inFlightAttention(int rows, long tokens) {
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

    /** All layers of {@code bytes} of KV from one place to the other. */
    public double transfer(long bytes) {
        return corrected(Component.TRANSFER, profile.transfer(), bytes);
    }

    /** Embedding of {@code rows} tokens. */
    public double preLayer(int rows) {
        return corrected(Component.PRE_LAYER, profile.preLayer(), rows);
    }

    /** Logits and sampling of {@code outputs} tokens. */
    public double postLayer(int outputs) {
        return corrected(Component.POST_LAYER, profile.postLayer(), outputs);
    }

    /** Constant time per step. */
    public double stepOverhead() {
        return profile.stepOverhead();
    }

    /** How much longer a GPU step takes while the CPU attends, as a factor. */
    public double hostLoad() {
        return profile.hostLoad();
    }

    /** Constant time per stage of a layer that waits for the CPU. */
    public double stageOverhead() {
        return profile.stageOverhead();
    }

    /** Constant time that an in-flight token takes per layer, to the CPU and back. */
    public double tripOverhead() {
        return profile.tripOverhead();
    }

    private double corrected(Component component, Curve curve, double size) {
        if (!curve.covers(size)) {
            noteExtrapolation();
        }
        return curve.at(size) * factor[component.ordinal()];
    }

    private void noteExtrapolation() {
        extrapolations++;
    }

    /**
     * Learns from a step.
     *
     * @param predicted seconds that this model gave for the component; 0 when there was none
     * @param measured seconds it took; 0 when it was not measured
     */
    public void observe(Component component, double predicted, double measured) {
        if (!(predicted > 0) || !(measured > 0)) {
            return;
        }
        int c = component.ordinal();
        double ratio = Math.clamp(measured / predicted, MIN, MAX);
        double weight = seen[c] ? LEARNING : 0.5;
        error[c] += weight * (Math.abs(ratio - 1) - error[c]);
        factor[c] = Math.clamp(factor[c] * (1 + weight * (ratio - 1)), MIN, MAX);
        seen[c] = true;
    }

    /** Notes how far the prediction of a whole step missed; both in seconds. */
    public void observeStep(double predicted, double achieved) {
        extrapolated = extrapolations;
        if (predicted > 0 && achieved > 0) {
            double miss = Math.abs(Math.clamp(achieved / predicted, MIN, MAX) - 1);
            stepError = stepError + (steps++ == 0 ? 1 : LEARNING) * (miss - stepError);
        }
    }

    /** How far predictions of whole steps miss, as a share: 0.1 is ten per cent. A moving average. */
    public double error() {
        return stepError;
    }

    /** Error and correction by component, of those that were seen. */
    public Map<Component, double[]> corrections() {
        Map<Component, double[]> all = new EnumMap<>(Component.class);
        for (Component component : Component.values()) {
            if (seen[component.ordinal()]) {
                all.put(component, new double[] {factor[component.ordinal()], error[component.ordinal()]});
            }
        }
        return all;
    }

    /** How often a prediction went beyond what was measured, as of the last step. */
    public long extrapolated() {
        return extrapolated;
    }
}
