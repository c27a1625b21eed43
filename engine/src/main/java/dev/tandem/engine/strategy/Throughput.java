package dev.tandem.engine.strategy;

import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * What steps got done in their time: means over the first steps, then moving ones.
 *
 * <p>Owned by: engine thread.
 */
final class Throughput {
    private final int horizon;
    private long steps;
    private double promptSeconds;
    private double tokens;
    private double seconds;
    private double price;

    /** @param horizon steps over which means move */
    Throughput(int horizon) {
        this.horizon = horizon;
    }

    /**
     * Counts a step.
     *
     * @param aToken seconds of GPU-only for a token of a decode row, as things were
     * @param took seconds
     */
    void add(Work work, double aToken, double took) {
        double newest = 1.0 / Math.min(++steps, horizon);
        promptSeconds += newest * (work.promptSeconds() - promptSeconds);
        tokens += newest * (work.tokens() - tokens);
        seconds += newest * (took - seconds);
        price += newest * (aToken - price);
    }

    /** Seconds of GPU-only that a second was worth, where a token is worth {@code aToken}. */
    double rate(double aToken) {
        return new Work(promptSeconds, tokens).worth(aToken) / seconds;
    }

    /** Mean seconds of GPU-only for a token. */
    double price() {
        return price;
    }

    /** Whether there are as many steps as means are taken over. */
    boolean isComplete() {
        return steps >= horizon;
    }

    void clear() {
        steps = 0;
        promptSeconds = 0;
        tokens = 0;
        seconds = 0;
        price = 0;
    }
}
