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
    private double addedByPrompts;
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
     * @param promptsAdded seconds that its prompts added to it, if it is gpu-only's; 0 otherwise
     * @param took seconds that the step took
     */
    public void add(Work work, double tokenSeconds, double promptsAdded, double took) {
        double newest = 1.0 / Math.min(++steps, horizon);
        elapsed += took;
        promptSeconds += newest * (work.promptSeconds() - promptSeconds);
        tokens += newest * (work.tokens() - tokens);
        addedByPrompts += newest * (promptsAdded - addedByPrompts);
        seconds += newest * (took - seconds);
        secondsPerToken += newest * (tokenSeconds - secondsPerToken);
    }

    /**
     * Normalised work per second.
     *
     * @param tokenSeconds seconds of gpu-only that a decoded token counts
     * @param promptCost what a prompt counts, as {@link #promptCost()}
     */
    public double rate(double tokenSeconds, double promptCost) {
        return new Work(promptCost * promptSeconds, tokens).normalisedWork(tokenSeconds) / seconds;
    }

    /**
     * Seconds that prompts added to steps of gpu-only, over those that they need in long steps. It is at most 1, and
     * less where they are piggybacked. Windows of gpu-only with more and with fewer prompts then have equal rates.
     */
    double promptCost() {
        return promptSeconds == 0 ? 1 : Math.min(1, addedByPrompts / promptSeconds);
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
        addedByPrompts = 0;
        seconds = 0;
        secondsPerToken = 0;
    }
}
