package dev.tandem.engine.strategy;

import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * What steps got done in their time: means over the first steps, then moving ones.
 *
 * <p>Owned by: engine thread.
 */
final class Throughput {
    /** Fewer steps say little, however long they take. */
    private static final int MIN = 64;

    private static final double HOPELESS = 0.85;

    private final int horizon;
    private long steps;
    private double total;
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
     * @param secondsPerToken seconds of GPU-only for a token of a decode row, as things were
     * @param took seconds
     */
    void add(Work work, double secondsPerToken, double took) {
        double newest = 1.0 / Math.min(++steps, horizon);
        total += took;
        promptSeconds += newest * (work.promptSeconds() - promptSeconds);
        tokens += newest * (work.tokens() - tokens);
        seconds += newest * (took - seconds);
        price += newest * (secondsPerToken - price);
    }

    /** Seconds of GPU-only that a second was worth, where a token is worth {@code secondsPerToken}. */
    double rate(double secondsPerToken) {
        return new Work(promptSeconds, tokens).normalisedWork(secondsPerToken) / seconds;
    }

    /** What was done in a second, to what the other's steps did. */
    double share(Throughput other) {
        return rate(other.price) / other.rate(other.price);
    }

    /** Whether that is so little that nobody need wait until the host is full, or empty. */
    boolean isHopelessBeside(Throughput other) {
        return share(other) < HOPELESS;
    }

    /** Mean seconds of GPU-only for a token. */
    double price() {
        return price;
    }

    /** Seconds that as many steps take as means are taken over. */
    double horizonSeconds() {
        return horizon * seconds;
    }

    /** Whether there are as many steps as means are taken over. */
    boolean isComplete() {
        return steps >= horizon;
    }

    /** Whether there are, or have been steps for so many seconds. */
    boolean isComplete(double longest) {
        return isComplete() || steps >= MIN && total > longest;
    }

    void clear() {
        steps = 0;
        total = 0;
        promptSeconds = 0;
        tokens = 0;
        seconds = 0;
        price = 0;
    }
}
