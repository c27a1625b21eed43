package dev.tandem.engine.schedule;

import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.StepResult;

/** Turns the engine's state into the next step. */
public interface Scheduler {
    /**
     * Grants blocks, moves sequences between the state's queues and returns what to compute; an empty plan when there
     * is nothing to do.
     */
    StepPlan plan(SchedulerState state);

    /**
     * Told how the planned step went.
     *
     * @param nanos from submission to result
     */
    default void completed(StepResult result, long nanos) {}
}
