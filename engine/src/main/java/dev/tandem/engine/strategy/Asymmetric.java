package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;

/**
 * {@code asymmetric} and {@code fastdecode-plus}: NEO's schedule of two sub-batches in every step, without its step 6.
 *
 * @param name of the strategy, for reasons
 * @param pipeline drafts the steps
 */
public record Asymmetric(String name, Pipeline pipeline) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = pipeline.draft(state);
        why.because(
                "%s: sub-batches of %d and %d rows; the CPU computes attention for %d and %d of them",
                name,
                draft.load(0).rows(),
                draft.load(1).rows(),
                draft.load(0).cpuRows(),
                draft.load(1).cpuRows());
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        pipeline.completed(draft, achieved);
    }
}
