package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;

/**
 * Decides which steps measure gpu-only, and when measuring must end because requests pile up. The first burst of a
 * server does not count: all its prompts are computed at once and no request ends, so its throughput says nothing about
 * later.
 *
 * <p>Owned by: engine thread.
 */
final class Measurement {
    /**
     * Max growth of the number of requests while gpu-only is measured, as a fraction of those on the GPU. In
     * {@code OpenLoopTest} 3 requests wait when offloading begins; without this limit 17 and 25 do.
     */
    private static final double MAX_BACKLOG = 0.25;

    private static final int UNKNOWN = -1;

    private final int maxBurst;
    /** Number of ended requests at which the first burst is over. */
    private long burstEnds = UNKNOWN;

    private int burstSteps;
    /** Waiting and running requests when measuring began. */
    private int liveBefore = UNKNOWN;

    /**
     * The numbers of requests at one time.
     *
     * @param ended requests so far
     * @param onGpu requests on the GPU
     * @param live requests that wait or run
     */
    record Demand(long ended, int onGpu, int live) {
        static Demand of(SchedulerState state) {
            int onGpu = state.gpu().size();
            int onHost = state.host().size() + state.inFlight().size();
            return new Demand(state.ended(), onGpu, state.waiting().size() + onGpu + onHost);
        }
    }

    /** @param maxBurst max steps of the first burst */
    Measurement(int maxBurst) {
        this.maxBurst = maxBurst;
    }

    /** Whether steps count: as many requests have ended as were on the GPU when the first burst began. */
    boolean counts(Demand demand) {
        long ends = burstEnds == UNKNOWN ? demand.ended() + demand.onGpu() : burstEnds;
        return demand.ended() >= ends || burstSteps >= maxBurst || hasBacklog(demand);
    }

    /** Whether requests have piled up since offloading was first wanted. */
    boolean hasBacklog(Demand demand) {
        return liveBefore != UNKNOWN && demand.live() - liveBefore > MAX_BACKLOG * demand.onGpu();
    }

    /** Counts a completed step of gpu-only in which an arm would have offloaded. */
    void wanted(Demand demand) {
        burstSteps += counts(demand) ? 0 : 1;
        burstEnds = burstEnds == UNKNOWN ? demand.ended() + demand.onGpu() : burstEnds;
        liveBefore = liveBefore == UNKNOWN ? demand.live() : liveBefore;
    }

    /** Whether an arm would ever have offloaded. */
    boolean hasBegun() {
        return burstEnds != UNKNOWN;
    }

    /** Starts a new measurement. */
    void restart() {
        liveBefore = UNKNOWN;
    }
}
