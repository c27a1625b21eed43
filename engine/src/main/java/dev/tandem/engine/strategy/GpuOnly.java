package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;

/**
 * The baseline, {@code gpu-only}: one batch per step, decodes first, prefill chunks in what is left of the budget.
 *
 * <p>A sequence starts when its whole prompt has blocks and what all are expected to grow by is free; when the pool
 * still runs out, the last sequence in line is preempted. Host memory keeps preempted KV.
 *
 * @param preemption what happens to preempted KV
 * @param queueBypasses later requests that may start before one that does not fit; 0 keeps the order of arrival
 * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 where each row costs the same
 */
public record GpuOnly(Budget budget, Preemption preemption, int queueBypasses, int piggybackedTokens)
        implements Policy {
    public GpuOnly {
        if (queueBypasses < 0) {
            throw new ConfigurationException("--max-queue-bypass " + queueBypasses + " must be 0 or more");
        }
    }

    /** In the order of arrival. */
    public GpuOnly(Budget budget, Preemption preemption) {
        this(budget, preemption, 0, 0);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> preemption == Preemption.SWAP);
        if (!kept.evicted()) {
            GpuTier.swapIn(draft);
        }
        Prefills prefills = new Prefills(true, true, sequence -> false, piggybackedTokens);
        int maxRows = prefills.maxRows(draft, kept.unfinished());
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!kept.evicted()
                && draft.ins().size() == state.host().size()
                && state.inFlight().isEmpty()) {
            prefills.start(draft, draft.gpuSequences(), queueBypasses, maxRows);
        }
        why.because(
                "gpu-only: %d rows, %d of them decode",
                draft.load(0).rows(), draft.load(0).gpuRows());
        return draft;
    }
}
