package dev.tandem.engine.schedule;

import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;

/** Turns the engine's state into the next step. */
public interface Scheduler {
    /**
     * Decides the next step and has the committer carry it out: grant blocks and move sequences between queues.
     *
     * @return what to compute; an empty plan when there is nothing to do
     */
    StepPlan plan(SchedulerState state, PlanCommitter committer);

    /** Whether cached prefixes are copied between the tiers. */
    default CopyRule copies() {
        return CopyRule.ALWAYS;
    }

    /**
     * Reports the result of the oldest planned step that has not been reported yet.
     *
     * @param nanos from the step's submission, or from the end of the step before it if that came later, to its result
     * @return why the step was planned as it was
     */
    Decision completed(StepResult result, long nanos);
}
