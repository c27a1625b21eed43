package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.List;

/**
 * The gain over gpu-only that the cost model expects from offloading. It is the mean predicted gain of the last steps;
 * while the host fills, it is at least the estimated gain of a full host.
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
    private final int horizon;
    private double mean;
    private long predictions;

    /**
     * The gain that is expected when a step is drafted.
     *
     * @param gain predicted for this step, as a fraction
     * @param expected gain if offloading goes on, as a fraction
     * @param fills whether the host is not full yet
     */
    record Expectation(double gain, double expected, boolean fills) {}

    /**
     * Creates an expectation.
     *
     * @param estimates one per kind of step
     * @param horizon steps over which predictions are averaged
     */
    ExpectedGain(List<SpeedupEstimate> estimates, int horizon) {
        this.estimates = estimates;
        this.horizon = horizon;
    }

    /**
     * The expected gain in the current state.
     *
     * @param gpuOnly the gpu-only draft of the current state
     * @param gain predicted for the step that offloads, over the gpu-only draft, as a fraction
     */
    Expectation of(StepDraft gpuOnly, double gain) {
        SpeedupEstimate.Estimate full = new SpeedupEstimate.Estimate(0, 0);
        for (SpeedupEstimate kind : estimates) {
            SpeedupEstimate.Estimate estimate = kind.of(gpuOnly);
            full = estimate.gain() > full.gain() ? estimate : full;
        }
        SchedulerState state = gpuOnly.state();
        boolean fills = state.host().size() + state.inFlight().size() < FULL * full.hostTokens();
        return new Expectation(gain, fills ? Math.max(meanWith(gain), full.gain()) : meanWith(gain), fills);
    }

    /** The mean with one more prediction; single steps differ, because only some compute prompts. */
    private double meanWith(double gain) {
        return mean + (gain - mean) / Math.min(predictions + 1, horizon);
    }

    /** Learns from the expectation of a completed step. */
    void learn(Expectation expectation) {
        mean = meanWith(expectation.gain());
        // predictions while the host fills say little about a full host
        predictions = expectation.fills() ? 0 : predictions + 1;
    }
}
