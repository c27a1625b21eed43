package dev.tandem.engine.loop;

/** The order in which requests run, with vLLM's names. */
public enum SchedulingPolicy {
    /** First come, first served. Requests must not name a priority. */
    FCFS,
    /**
     * A lower priority value runs first, and waiting requests gain priority
     * ({@link dev.tandem.engine.queue.WaitingQueue#ORDER}).
     */
    PRIORITY
}
