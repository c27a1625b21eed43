package dev.tandem.engine.request;

/**
 * When a sequence arrived, started and produced tokens, in nanoseconds of the engine's clock, and its rank in the
 * queue.
 *
 * <p>Owned by: engine thread.
 */
public final class SequenceTimings {
    /**
     * Waiting time that one unit of priority is worth. It is much longer than a request takes, so that priorities 0 and
     * 1 differ under load. It is short enough that a request of low priority runs within a minute or so.
     */
    public static final long NANOS_PER_PRIORITY = 10_000_000_000L;
    /** Priorities beyond this bound rank equally: their products with {@link #NANOS_PER_PRIORITY} still fit a long. */
    private static final int MAX_PRIORITY = 500_000_000;

    private static final long UNSET = Long.MIN_VALUE;

    private final long arrivedNanos;
    private final long priorityNanos;
    private long firstScheduledNanos = UNSET;
    private long firstTokenNanos = UNSET;
    private long lastTokenNanos = UNSET;
    private int bypassed;

    SequenceTimings(long arrivedNanos, int priority) {
        this.arrivedNanos = arrivedNanos;
        this.priorityNanos = NANOS_PER_PRIORITY * Math.clamp(priority, -MAX_PRIORITY, MAX_PRIORITY);
    }

    /** When the request arrived. */
    public long arrivedNanos() {
        return arrivedNanos;
    }

    /** The instant, shifted by the request's priority: the sequence with the lower value goes first. */
    public long shiftedByPriority(long nanos) {
        return nanos == UNSET ? UNSET : nanos + priorityNanos;
    }

    /** Records the start of a step that computes the sequence; true for the first such step. */
    public boolean scheduledAt(long nanos) {
        if (firstScheduledNanos != UNSET) {
            return false;
        }
        firstScheduledNanos = nanos;
        return true;
    }

    /** Records when the first token was sampled and returns the time since arrival. */
    public long firstTokenAt(long nanos) {
        firstTokenNanos = nanos;
        return nanos - arrivedNanos;
    }

    void tokenAt(long nanos) {
        lastTokenNanos = nanos;
    }

    /** When the last token was sampled; {@link Long#MIN_VALUE} before the first. */
    public long lastTokenNanos() {
        return lastTokenNanos;
    }

    /** Time from arrival to the first step, or to {@code now} when there was none. */
    public long queued(long now) {
        return (firstScheduledNanos == UNSET ? now : firstScheduledNanos) - arrivedNanos;
    }

    /** Time from arrival to the first token; 0 when there was none. */
    public long timeToFirstToken() {
        return firstTokenNanos == UNSET ? 0 : firstTokenNanos - arrivedNanos;
    }

    /** Counts a request that was behind this one in the queue and starts before it. */
    public void countBypassed() {
        bypassed++;
    }

    /** Requests that were behind this one in the queue and started before it. */
    public int bypassed() {
        return bypassed;
    }
}
