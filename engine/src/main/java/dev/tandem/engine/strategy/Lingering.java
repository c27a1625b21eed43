package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;

/**
 * Rules that choose between the pipeline and async overlap step by step, slow to leave the pipeline. Rows that enter
 * async overlap in a single step keep the pipeline waiting until they are through, a layer a step. So until the rules
 * have wanted to leave in some steps since they last had a pipeline, the step is what NEO would make of it.
 *
 * <p>Owned by: engine thread.
 */
final class Lingering implements Policy {
    /**
     * 8, 32 and 128 did the same on {@code h200-8sm-2req}; 32 cost {@code h200-16sm-26k} 1000/400 a hundredth, 2 and 8
     * nothing (simulated).
     */
    static final int PATIENCE = 8;

    private final Policy rules;
    private final Policy neo;
    /** Steps in which the rules wanted async overlap, since they last had a pipeline. */
    private int refused = PATIENCE;
    /** How {@link #refused} changes once a draft's step has completed. */
    private final PendingDrafts<Choice> drafts = new PendingDrafts<>();

    private enum Choice {
        PIPELINE,
        REFUSED,
        OTHER
    }

    Lingering(Policy rules, Policy neo) {
        this.rules = rules;
        this.neo = neo;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = rules.draft(state, why);
        if (draft.shape() != Shape.ASYNC
                || refused >= PATIENCE
                || !state.inFlight().isEmpty()) {
            drafts.add(draft, draft.shape() == Shape.PIPELINE ? Choice.PIPELINE : Choice.OTHER);
            return draft;
        }
        StepDraft stays = neo.draft(state, why);
        why.because(
                "apex: the pipeline is left after %d steps, of which this is number %d; %s",
                PATIENCE, refused + 1, why.reason());
        drafts.add(stays, Choice.REFUSED);
        return stays;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        rules.completed(draft, achieved);
        drafts.completed(draft)
                .ifPresent(choice -> refused = switch (choice) {
                    case PIPELINE -> 0;
                    case REFUSED -> refused + 1;
                    case OTHER -> refused;
                });
    }
}
