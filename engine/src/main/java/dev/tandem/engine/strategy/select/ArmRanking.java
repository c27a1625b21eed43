package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor.Work;

/** The rule by which the selector ranks its arms: what a step is worth, and how two windows of steps compare. */
public interface ArmRanking {
    /** The work of a step as it counts here. The selector asks when the step is drafted. */
    Work work(StepDraft draft);

    /** The candidate's work per second, as a share of the reference's: 1 where both do the same. */
    double share(ThroughputWindow candidate, ThroughputWindow reference);
}
