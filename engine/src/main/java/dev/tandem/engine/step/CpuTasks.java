package dev.tandem.engine.step;

/**
 * Attention that the CPU's workers computed during a step; a task is that of a token in a layer.
 *
 * @param count of tasks; 0 when the executor does not count them
 * @param tokens of context, of all tasks
 */
public record CpuTasks(long count, long tokens) {
    /** Nothing was computed, or counted. */
    public static final CpuTasks NONE = new CpuTasks(0, 0);

    /** The tasks since {@code earlier} of counters that only grow. */
    public CpuTasks since(CpuTasks earlier) {
        return new CpuTasks(count - earlier.count, tokens - earlier.tokens);
    }
}
