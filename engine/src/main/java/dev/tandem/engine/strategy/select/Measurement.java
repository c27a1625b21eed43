package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;

/**
 * When steps of gpu-only say what gpu-only can do, and when measuring must end because requests pile up. At first all
 * prompts are computed at once and nothing ends; what gpu-only does in this burst is not what it does later.
 *
 * <p>Owned by: engine thread.
 */
final class Measurement {
    /**
     * Share of the requests on the GPU by which all requests may become more while gpu-only is measured. In
     * {@code OpenLoopTest} 3 requests wait with it when offloading begins, 17 and 25 without it.
     */
    private static final double MAX_BACKLOG = 0.25;

    private static final int UNKNOWN = -1;

    private final int maxBurst;
    /** Requests that will have ended when the burst has. */
    private long burstEnds = UNKNOWN;

    private int burstSteps;
    /** Requests in the engine when measuring began. */
    private int liveBefore = UNKNOWN;

    /**
     * Requests at some moment.
     *
     * @param ended so far
     * @param live that wait or run
     */
    record Demand(long ended, int onGpu, int live) {
        static Demand of(SchedulerState state) {
            int onGpu = state.gpu().size();
            int onHost = state.host().size() + state.inFlight().size();
            return new Demand(state.ended(), onGpu, state.waiting().size() + onGpu + onHost);
        }
    }

    /** @param maxBurst steps after which the first burst is over in any case */
    Measurement(int maxBurst) {
        this.maxBurst = maxBurst;
    }

    /** Whether the first burst is over: as many requests have ended as were on the GPU when it began. */
    boolean counts(Demand demand) {
        long ends = burstEnds == UNKNOWN ? demand.ended() + demand.onGpu() : burstEnds;
        return demand.ended() >= ends || burstSteps >= maxBurst || hasBacklog(demand);
    }

    /** Whether requests have piled up since offloading was first wanted. */
    boolean hasBacklog(Demand demand) {
        return liveBefore != UNKNOWN && demand.live() - liveBefore > MAX_BACKLOG * demand.onGpu();
    }

    /** A step of gpu-only has completed in which offloading was wanted. */
    void wanted(Demand demand) {
        burstSteps += counts(demand) ? 0 : 1;
        burstEnds = burstEnds == UNKNOWN ? demand.ended() + demand.onGpu() : burstEnds;
        liveBefore = liveBefore == UNKNOWN ? demand.live() : liveBefore;
    }

    /** Whether offloading was ever wanted. */
    boolean hasBegun() {
        return burstEnds != UNKNOWN;
    }

    /** The next measurement begins anew. */
    void restart() {
        liveBefore = UNKNOWN;
    }
}
