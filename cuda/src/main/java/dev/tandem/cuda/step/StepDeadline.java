package dev.tandem.cuda.step;

/**
 * How long a step may take before the GPU counts as hung. The limit is several times what the slowest supported GPU
 * needs, so that only faults exceed it.
 *
 * @param baseNanos for any step, to read its weights and move KV
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
     * Allowance for waits, in watchdog times. A single wait for the CPU ends after two; all waits of a step together
     * take less than four.
     */
    private static final int WATCHDOGS = 4;
    /** Divides a step's limit: after that fraction of it, /health is degraded. */
    private static final int DEGRADED = 4;

    /**
     * The time of one step.
     *
     * @param waits whether the step waits for the CPU
     * @param watchdogNanos time after which the CPU's task counts as stalled
     */
    public long nanos(int rows, boolean waits, long watchdogNanos) {
        return baseNanos + rows * rowNanos + (waits ? WATCHDOGS * watchdogNanos : 0);
    }

    /** The time after which a step that may take {@code limitNanos} is suspicious. */
    public static long suspiciousNanos(long limitNanos) {
        return limitNanos / DEGRADED;
    }
}
