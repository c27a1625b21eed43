package dev.tandem.cuda.step;

/**
 * How long a step may take before the GPU counts as hung. It is meant for faults, not for slow steps: several times
 * what the slowest supported GPU needs.
 *
 * @param baseNanos for any step: its weights, and the KV that it moves
 * @param rowNanos for each row
 */
public record StepDeadline(long baseNanos, long rowNanos) {
    /**
     * A decode step of an 8B model takes about 60 ms on a T4, and 10 s are enough to move 100 GB over PCIe 3. A row of
     * a prompt with 128k tokens before it takes about 3 ms there. A value that is too small ends a healthy server; one
     * that is too large keeps the clients of a hung GPU waiting.
     */
    public static final StepDeadline USUAL = new StepDeadline(10_000_000_000L, 10_000_000L);
    /**
     * A single wait for the CPU gives up after twice the watchdog's time; all waits of a step together take less than
     * twice that.
     */
    private static final int WATCHDOGS = 4;
    /** The share of its time after which a step makes /health degraded: one in so many. */
    private static final int DEGRADED = 4;

    /**
     * The time of one step.
     *
     * @param waits whether it waits for the CPU
     * @param watchdogNanos after which the CPU's part of a wait counts as stalled
     */
    public long nanos(int rows, boolean waits, long watchdogNanos) {
        return baseNanos + rows * rowNanos + (waits ? WATCHDOGS * watchdogNanos : 0);
    }

    /** The time after which a step that may take {@code limitNanos} is suspicious. */
    public static long suspiciousNanos(long limitNanos) {
        return limitNanos / DEGRADED;
    }
}
