package dev.tandem.engine.request;

/**
 * How fast a request wants to be; targets steer placement, they are no promise. 0 means none.
 *
 * @param firstTokenNanos from arrival to the first token (TTFT)
 * @param perTokenNanos between later tokens (TPOT)
 */
public record LatencyTargets(long firstTokenNanos, long perTokenNanos) {
    public static final LatencyTargets NONE = new LatencyTargets(0, 0);

    public LatencyTargets {
        if (firstTokenNanos < 0 || perTokenNanos < 0) {
            throw RequestException.bad("ttft_target", "latency targets must not be negative");
        }
    }

    /** These where they are set, the server's elsewhere. */
    public LatencyTargets or(LatencyTargets server) {
        return new LatencyTargets(
                firstTokenNanos > 0 ? firstTokenNanos : server.firstTokenNanos,
                perTokenNanos > 0 ? perTokenNanos : server.perTokenNanos);
    }
}
