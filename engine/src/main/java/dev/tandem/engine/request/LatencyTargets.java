package dev.tandem.engine.request;

/**
 * Latency targets of a request, which steer in which tier it runs. They are no promise; 0 means no target.
 *
 * @param firstTokenNanos time from arrival to the first token (TTFT)
 * @param perTokenNanos mean time between later tokens (TPOT)
 */
public record LatencyTargets(long firstTokenNanos, long perTokenNanos) {
    /** No target. */
    public static final LatencyTargets NONE = new LatencyTargets(0, 0);

    /** Checks that no target is negative. */
    public LatencyTargets {
        if (firstTokenNanos < 0 || perTokenNanos < 0) {
            String name = firstTokenNanos < 0 ? "ttft_target" : "tpot_target";
            long value = firstTokenNanos < 0 ? firstTokenNanos : perTokenNanos;
            throw RequestException.bad(
                    name, name + " is " + value + " ns; it must not be negative, and 0 means no target");
        }
    }

    /** These targets, with the server's for those that are not set. */
    public LatencyTargets or(LatencyTargets server) {
        return new LatencyTargets(
                firstTokenNanos > 0 ? firstTokenNanos : server.firstTokenNanos,
                perTokenNanos > 0 ? perTokenNanos : server.perTokenNanos);
    }
}
