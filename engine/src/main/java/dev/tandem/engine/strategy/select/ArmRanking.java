package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor.Work;

/** The rule by which the selector ranks its arms: how the work of a step counts, and how two windows compare. */
public interface ArmRanking {
    /** Returns the work of a step as it counts in this ranking. The selector calls this when the step is drafted. */
    Work work(StepDraft draft);

    /**
     * Returns the candidate's work per second over the reference's: 1 where both are equal.
     *
     * @param promptCost what a prompt counts, as {@link ThroughputWindow#promptCost()}
     */
    double ratio(ThroughputWindow candidate, ThroughputWindow reference, double promptCost);
}
