package dev.tandem.engine.strategy.select;

import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * The work of an arm's steps and the time that they took: means over all steps until the window is complete, moving
 * means from then on.
 *
 * <p>Owned by: engine thread.
 */
public final class ThroughputWindow {
    private final int horizon;
    private long steps;
    private double elapsed;
    private double promptSeconds;
    private double tokens;
    private double seconds;
    private double secondsPerToken;

    /**
     * Creates an empty window.
     *
     * @param horizon steps over which the means are taken
     */
    public ThroughputWindow(int horizon) {
        this.horizon = horizon;
    }

    /**
     * Counts a step.
     *
     * @param work of the step
     * @param tokenSeconds seconds of gpu-only per decoded token in the state of this step
     * @param took seconds that the step took
     */
    public void add(Work work, double tokenSeconds, double took) {
        double newest = 1.0 / Math.min(++steps, horizon);
        elapsed += took;
        promptSeconds += newest * (work.promptSeconds() - promptSeconds);
        tokens += newest * (work.tokens() - tokens);
        seconds += newest * (took - seconds);
        secondsPerToken += newest * (tokenSeconds - secondsPerToken);
    }

    /** Normalised work per second, where a decoded token counts {@code tokenSeconds} seconds of gpu-only. */
    public double rate(double tokenSeconds) {
        return new Work(promptSeconds, tokens).normalisedWork(tokenSeconds) / seconds;
    }

    /** Mean seconds of gpu-only per decoded token. */
    public double secondsPerToken() {
        return secondsPerToken;
    }

    /** Seconds that a complete window of such steps takes. */
    double horizonSeconds() {
        return horizon * seconds;
    }

    /** Seconds of all steps since the window was cleared. */
    double elapsed() {
        return elapsed;
    }

    long steps() {
        return steps;
    }

    /** Whether the window has as many steps as the means are taken over. */
    boolean isComplete() {
        return steps >= horizon;
    }

    void clear() {
        steps = 0;
        elapsed = 0;
        promptSeconds = 0;
        tokens = 0;
        seconds = 0;
        secondsPerToken = 0;
    }
}
