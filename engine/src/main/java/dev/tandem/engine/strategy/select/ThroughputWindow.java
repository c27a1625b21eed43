package dev.tandem.engine.strategy.select;

import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * What an arm's steps got done in their time: means over the first steps, moving means once the window is complete.
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

    /** @param horizon steps over which the means are taken */
    public ThroughputWindow(int horizon) {
        this.horizon = horizon;
    }

    /**
     * Counts a step.
     *
     * @param tokenSeconds seconds of gpu-only for one token of a decode row, as things were in this step
     * @param took seconds
     */
    public void add(Work work, double tokenSeconds, double took) {
        double newest = 1.0 / Math.min(++steps, horizon);
        elapsed += took;
        promptSeconds += newest * (work.promptSeconds() - promptSeconds);
        tokens += newest * (work.tokens() - tokens);
        seconds += newest * (took - seconds);
        secondsPerToken += newest * (tokenSeconds - secondsPerToken);
    }

    /** Normalised work per second, where one token is {@code tokenSeconds} seconds of gpu-only. */
    public double rate(double tokenSeconds) {
        return new Work(promptSeconds, tokens).normalisedWork(tokenSeconds) / seconds;
    }

    /** Mean seconds of gpu-only for one token. */
    public double secondsPerToken() {
        return secondsPerToken;
    }

    /** Seconds that a full window of such steps takes. */
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

    /** Whether there are as many steps as the means are taken over. */
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
