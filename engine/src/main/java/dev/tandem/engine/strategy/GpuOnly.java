package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;

/**
 * The baseline, {@code gpu-only}: one batch per step, with decodes first and prefill chunks in the rest of the budget.
 *
 * <p>A sequence starts when the GPU has blocks for its whole prompt and for the forecast growth of all sequences. If
 * the pool still runs out of blocks, the last sequence is preempted. Host memory holds preempted KV.
 *
 * @param budget of a step
 * @param preemption what happens to preempted KV
 * @param queueBypasses max number of later requests that start before one that does not fit; 0 keeps the order of
 *     arrival
 * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 where every row costs the same
 * @param wholeTiles where steps of prompts end while requests wait
 * @param forecasts whether a sequence starts only with room for the forecast growth of all sequences
 */
public record GpuOnly(
        Budget budget,
        Preemption preemption,
        int queueBypasses,
        int piggybackedTokens,
        WholeTiles wholeTiles,
        boolean forecasts)
        implements Policy {
    public GpuOnly {
        if (queueBypasses < 0) {
            throw new ConfigurationException("--max-queue-bypass " + queueBypasses + " must be 0 or more");
        }
    }

    /** Starts a sequence only with room for the forecast growth of all sequences. */
    public GpuOnly(Budget budget, Preemption preemption, int queueBypasses, int piggybackedTokens) {
        this(budget, preemption, queueBypasses, piggybackedTokens, WholeTiles.NONE, true);
    }

    /** Starts requests in the order of arrival and piggybacks no prompts. */
    public GpuOnly(Budget budget, Preemption preemption) {
        this(budget, preemption, 0, 0);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft whole = draft(state, budget.maxBatchTokens());
        int end = wholeTiles.end(whole);
        StepDraft draft = end < whole.totalRows() ? draft(state, end) : whole;
        why.because(
                "gpu-only: %d rows, %d of them decode",
                draft.load(0).rows(), draft.load(0).gpuRows());
        return draft;
    }

    private StepDraft draft(SchedulerState state, int end) {
        StepDraft draft = new StepDraft(state, budget, forecasts);
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> preemption == Preemption.SWAP);
        if (!kept.evicted()) {
            GpuTier.swapIn(draft);
        }
        Prefills prefills = new Prefills(true, true, sequence -> false, piggybackedTokens);
        int maxRows = Math.min(end, prefills.maxRows(draft, kept.unfinished()));
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!kept.evicted()
                && draft.ins().size() == state.host().size()
                && state.inFlight().isEmpty()) {
            prefills.start(draft, draft.gpuSequences(), queueBypasses, maxRows);
        }
        return draft;
    }
}
