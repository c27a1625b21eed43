package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.List;

/**
 * The gain over gpu-only that the cost model expects from a full host. The prediction of a single step says nothing
 * about it: a step with prompts does more work per second than one without, whoever drafts it.
 *
 * <p>Owned by: engine thread.
 */
final class ExpectedGain {
    /**
     * Fraction of the best number of host tokens from which the host counts as full. When windows were judged while the
     * host still filled, {@code apex} lost its gain on {@code h200-26k} (ADR 18).
     */
    private static final double FULL = 0.7;

    private final List<SpeedupEstimate> estimates;

    /**
     * The gain that is expected when a step is drafted.
     *
     * @param gain of a full host, as a fraction
     * @param fills whether the host is not full yet
     */
    record Expectation(double gain, boolean fills) {}

    /** @param estimates one per kind of step */
    ExpectedGain(List<SpeedupEstimate> estimates) {
        this.estimates = estimates;
    }

    /** The expected gain in the state of a draft of gpu-only. */
    Expectation of(StepDraft gpuOnly) {
        int hostTokens = 0;
        double gain = 0;
        for (SpeedupEstimate kind : estimates) {
            SpeedupEstimate.Estimate estimate = kind.of(gpuOnly);
            hostTokens = estimate.gain() > gain ? estimate.hostTokens() : hostTokens;
            gain = Math.max(gain, estimate.gain());
        }
        SchedulerState state = gpuOnly.state();
        boolean fills = state.host().size() + state.inFlight().size() < FULL * hostTokens;
        return new Expectation(gain, fills);
    }
}
