package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * A strategy as long as the host computes attention, GPU-only from then on: host sequences come back to the GPU as
 * there is room.
 *
 * <p>Owned by: engine thread.
 */
public final class UntilHostLost implements Policy {
    private static final Logger LOG = System.getLogger(UntilHostLost.class.getName());

    private final Policy strategy;
    private final Policy gpuOnly;
    private boolean lost;

    public UntilHostLost(Policy strategy, Policy gpuOnly) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        if (!lost) {
            return strategy.draft(state, why);
        }
        why.because("the host is lost, so gpu-only");
        return gpuOnly.draft(state, why);
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        if (!lost) {
            strategy.completed(draft, achieved);
        }
    }

    @Override
    public void hostLost(String why) {
        if (!lost) {
            lost = true;
            LOG.log(
                    Level.ERROR,
                    "the host computes attention no longer, GPU-only from here on until a restart: {0}",
                    why);
        }
    }
}
