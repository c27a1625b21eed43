package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;

/**
 * Whether requests need more than the GPU alone can do. The host raises throughput and makes its requests slow, so it
 * pays where they would pile up without it. Below that, a queue is short and soon over, and waiting in it takes less
 * time than decoding on the host.
 *
 * <p>Only the queue says which of the two it is. What the GPU alone could do is not known below saturation: with a
 * short queue it finds fewer requests that fit together, and does up to 15 % less than with a long one. The host is
 * needed from the moment at which one of these holds:
 *
 * <ul>
 *   <li>More than {@link #MAX_WAITING} requests wait.
 *   <li>More than {@link #MAX_WAITING_LONG} wait, and the first of them has waited for more than
 *       {@link #MAX_WAIT_NANOS}.
 *   <li>Requests have waited without a break while more than {@link #MAX_ENDED} others ended.
 * </ul>
 *
 * <p>It is needed until no request waits and none is on the host.
 *
 * <p>Owned by: engine thread.
 */
final class GpuDemand {
    /**
     * Max requests that wait without the host. At 0.9 of saturation the queue of a single server is that long in 0.1 %
     * of the time.
     */
    static final int MAX_WAITING = 64;
    /**
     * Max requests that wait without the host once the first has waited for more than {@link #MAX_WAIT_NANOS}. The
     * queue at 0.9 of saturation had at most 30 on {@code h200-8sm-2req} and {@code h200-2req}, where few requests are
     * a long wait. At any wait 32 are too few: on {@code h200-26k} azure-code at 0.9 of saturation then used the host,
     * and its tokens took 1.63 times as long (simulated, ADR 91).
     */
    static final int MAX_WAITING_LONG = 32;
    /**
     * Max wait of the first request, in nanoseconds, without the host while more than {@link #MAX_WAITING_LONG} wait.
     * At 0.9 of saturation azure-code on {@code h200-26k} waits for 4.1 s. From a cold start 1000/400 there needs the
     * host within 52 s, so at 5 s or less (simulated, three seeds each, ADR 91).
     */
    static final long MAX_WAIT_NANOS = 4_500_000_000L;
    /**
     * Max requests that end while others wait without a break, without the host. Where few clients wait for their
     * answers before they ask again, the queue is never long. At 0.9 of saturation a single server was never busy for
     * so many requests, of 1.5 million (simulated).
     */
    static final int MAX_ENDED = 2048;

    /** Requests that had ended when none waited. */
    private long endedBefore;

    private boolean needsHost;

    /** Whether the host is needed. */
    boolean needsHost() {
        return needsHost;
    }

    /** Sees the state after a completed step. */
    void completed(SchedulerState state) {
        boolean noneWaits = state.waiting().isEmpty();
        endedBefore = noneWaits ? state.ended() : endedBefore;
        needsHost = state.waiting().size() > MAX_WAITING
                || waitIsLong(state)
                || state.ended() - endedBefore > MAX_ENDED
                || needsHost
                        && !(noneWaits
                                && state.host().isEmpty()
                                && state.inFlight().isEmpty());
    }

    private static boolean waitIsLong(SchedulerState state) {
        return state.waiting().size() > MAX_WAITING_LONG
                && state.waiting().first().timings().queued(state.now()) > MAX_WAIT_NANOS;
    }
}
