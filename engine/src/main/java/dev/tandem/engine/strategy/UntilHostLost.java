package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * Runs a strategy until the CPU can no longer compute attention, and gpu-only from then on. Host sequences return to
 * the GPU as it has room.
 *
 * <p>Owned by: engine thread.
 */
public final class UntilHostLost implements Policy {
    private static final Logger LOG = System.getLogger(UntilHostLost.class.getName());

    private final Policy strategy;
    private final Policy gpuOnly;
    private boolean lost;

    /**
     * Creates a policy.
     *
     * @param strategy drafts the steps while the CPU computes attention
     * @param gpuOnly drafts the steps after that
     */
    public UntilHostLost(Policy strategy, Policy gpuOnly) {
        this.strategy = strategy;
        this.gpuOnly = gpuOnly;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        if (!lost) {
            return strategy.draft(state, why);
        }
        why.because("the CPU no longer computes attention, so gpu-only until a restart");
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
                    "The CPU no longer computes attention: {0}. The GPU serves alone until the server is restarted.",
                    why);
        }
    }
}
