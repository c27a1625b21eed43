package dev.tandem.engine.loop;

/** In which order requests run; vLLM's names. */
public enum SchedulingPolicy {
    /** First come, first served. Requests must not name a priority. */
    FCFS,
    /**
     * A lower priority value runs first; waiting makes up for it ({@link dev.tandem.engine.queue.WaitingQueue#ORDER}).
     */
    PRIORITY
}
