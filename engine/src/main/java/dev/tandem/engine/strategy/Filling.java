package dev.tandem.engine.strategy;

import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * Steps while the host is still filling: they do less than they will. There are so many windows of them at most, and
 * only as long as the host has more rows from one to the next; short outputs may never fill it.
 *
 * <p>Owned by: engine thread.
 */
final class Filling {
    /** A host that has so many times the rows that it had still fills. */
    private static final double MORE = 1.03;

    private final Throughput window;
    private final int windows;
    private double longest;
    private boolean fills;
    private boolean ended;
    private int count;
    private int rowsBefore;

    /**
     * @param window steps
     * @param windows most of them
     */
    Filling(int window, int windows) {
        this.window = new Throughput(window);
        this.windows = windows;
    }

    /**
     * Offloading begins.
     *
     * @param seconds after which a window of few long steps ends
     */
    void begin(double seconds) {
        longest = seconds;
        fills = true;
        ended = true;
        count = 0;
        rowsBefore = 0;
    }

    /** Whether more steps may be the filling's. */
    boolean lasts() {
        return fills && count < windows;
    }

    /**
     * Counts a step as {@link Throughput#add} does.
     *
     * @return whether it ended a window
     */
    boolean add(Work work, double secondsPerToken, double took, int hostTokens) {
        if (ended) {
            window.clear();
        }
        window.add(work, secondsPerToken, took);
        ended = window.isComplete(longest);
        if (ended) {
            fills = hostTokens > MORE * rowsBefore;
            rowsBefore = hostTokens;
            count++;
        }
        return ended;
    }

    /** The window at hand, or that has just ended. */
    Throughput window() {
        return window;
    }
}
