package dev.tandem.engine.strategy;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.util.List;

/**
 * The baseline, {@code gpu-only}: one batch per step, with decodes first and prefill chunks in the rest of the budget.
 *
 * <p>A sequence starts when the GPU has blocks for its whole prompt and for the forecast growth of all sequences. If
 * the pool still runs out of blocks, the last sequence is preempted. Host memory holds preempted KV; a sequence that
 * waits there for room lets later ones start first as one that waits for its prompt does.
 *
 * @param budget of a step
 * @param preemption what happens to preempted KV
 * @param queueBypasses max number of later requests that start before one that does not fit; 0 keeps the order of
 *     arrival
 * @param piggybacking what prompt tokens cost in decode steps
 * @param forecasts whether a sequence starts only with room for the forecast growth of all sequences
 */
public record GpuOnly(
        Budget budget, Preemption preemption, int queueBypasses, PiggybackedPrefill piggybacking, boolean forecasts)
        implements Policy {
    public GpuOnly {
        if (queueBypasses < 0) {
            throw new ConfigurationException("--max-queue-bypass " + queueBypasses + " must be 0 or more");
        }
    }

    /** Starts a sequence only with room for the forecast growth of all sequences. */
    public GpuOnly(Budget budget, Preemption preemption, int queueBypasses, PiggybackedPrefill piggybacking) {
        this(budget, preemption, queueBypasses, piggybacking, true);
    }

    /** Starts requests in the order of arrival and piggybacks no prompts. */
    public GpuOnly(Budget budget, Preemption preemption) {
        this(budget, preemption, 0, PiggybackedPrefill.NONE);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget, forecasts);
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> preemption == Preemption.SWAP);
        if (!kept.evicted()) {
            GpuTier.swapIn(draft);
        }
        Prefills prefills = new Prefills(true, true, sequence -> false, piggybacking);
        int maxRows = prefills.maxRows(draft, kept.unfinished(), 0);
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!kept.evicted() && state.inFlight().isEmpty()) {
            List<Sequence> swappedOut = state.host().stream()
                    .filter(sequence -> !draft.ins().contains(sequence))
                    .toList();
            prefills.start(draft, draft.gpuSequences(), swappedOut, queueBypasses, maxRows);
        }
        why.because(
                "gpu-only: %d rows, %d of them decode",
                draft.load(0).rows(), draft.load(0).gpuRows());
        return draft;
    }
}
