package dev.tandem.engine.schedule;

import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;

/** Turns the engine's state into the next step. */
public interface Scheduler {
    /**
     * Grants blocks, moves sequences between the state's queues and returns what to compute; an empty plan when there
     * is nothing to do.
     */
    StepPlan plan(SchedulerState state);

    /**
     * Told how a planned step went, the oldest that it was not told of yet.
     *
     * @param nanos from submission, or the end of the step before if that came later, to the result
     */
    default void completed(StepResult result, long nanos) {}
}
