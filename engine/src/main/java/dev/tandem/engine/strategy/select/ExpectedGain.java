package dev.tandem.engine.strategy.select;

import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate;
import java.util.List;

/**
 * The gain over gpu-only that the cost model expects of offloading: the mean predicted gain of the last steps or, while
 * the host fills, what it would bring once it is full.
 *
 * <p>Owned by: engine thread.
 */
final class ExpectedGain {
    /**
     * Share of the rows that pay most from which the host counts as full. Windows that were judged while the host still
     * filled cost {@code apex} its gain on {@code h200-26k} (ADR 18).
     */
    private static final double FULL = 0.7;

    private final List<SpeedupEstimate> estimates;
    private final int horizon;
    private double mean;
    private long predictions;

    /**
     * @param gain predicted for this step, as a share
     * @param expected of offloading as it goes on
     * @param fills whether the host has fewer rows than pay
     */
    record Expectation(double gain, double expected, boolean fills) {}

    /** @param horizon steps over which predictions are averaged */
    ExpectedGain(List<SpeedupEstimate> estimates, int horizon) {
        this.estimates = estimates;
        this.horizon = horizon;
    }

    /**
     * @param gpuOnly the gpu-only step at hand
     * @param gain predicted of the step that offloads over it, as a share
     */
    Expectation of(StepDraft gpuOnly, double gain) {
        SpeedupEstimate.Outlook full = new SpeedupEstimate.Outlook(0, 0);
        for (SpeedupEstimate estimate : estimates) {
            SpeedupEstimate.Outlook outlook = estimate.of(gpuOnly);
            full = outlook.gain() > full.gain() ? outlook : full;
        }
        SchedulerState state = gpuOnly.state();
        boolean fills = state.host().size() + state.inFlight().size() < FULL * full.rows();
        return new Expectation(gain, fills ? Math.max(meanWith(gain), full.gain()) : meanWith(gain), fills);
    }

    /** Steps differ: some compute prompts, some do not. */
    private double meanWith(double gain) {
        return mean + (gain - mean) / Math.min(predictions + 1, horizon);
    }

    /** The step of which this was expected has completed. */
    void learn(Expectation expectation) {
        mean = meanWith(expectation.gain());
        // predictions for a host that fills say little about a full one
        predictions = expectation.fills() ? 0 : predictions + 1;
    }
}
