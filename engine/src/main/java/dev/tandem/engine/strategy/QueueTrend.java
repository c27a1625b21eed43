package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.SchedulerState;

/**
 * How long the queue of waiting requests lasts if it goes on as it did. A host that is filled for a short queue is
 * emptied again before it has paid.
 *
 * <p>Owned by: engine thread.
 */
public final class QueueTrend {
    private final int window;
    private long steps;
    /** The queue at the last two multiples of the window. */
    private int lastWaiting;

    private int olderWaiting;
    private long olderStep;

    /**
     * Creates a trend of no steps.
     *
     * @param window steps over which the queue is compared with what it was
     */
    public QueueTrend(int window) {
        this.window = window;
    }

    /**
     * Whether the queue goes on for more than two windows, if it shrinks as it did in the last one or two. In the first
     * window there is nothing to compare with, so it lasts as long as the sequences on the GPU need for its outputs.
     */
    public boolean lasts(SchedulerState state) {
        int waiting = state.waiting().size();
        if (steps < window) {
            return waiting
                            * SpeedupEstimate.expectedOutputs(state)
                            / Math.max(1, state.gpu().size())
                    > 2 * window;
        }
        int fewer = olderWaiting - waiting;
        return fewer <= 0 || (double) waiting * (steps - olderStep) / fewer > 2 * window;
    }

    /** Sees the state after a completed step. */
    public void completed(SchedulerState state) {
        if (steps++ % window == 0) {
            olderStep = Math.max(0, steps - 1 - window);
            olderWaiting = steps == 1 ? state.waiting().size() : lastWaiting;
            lastWaiting = state.waiting().size();
        }
    }
}
