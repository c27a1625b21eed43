package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;

/**
 * Empties the host tier without a pause for its clients: the GPU's part of a step is gpu-only's, prompts start on the
 * GPU alone, and host sequences decode on in async overlap. None enters the host. Prompts and host sequences take turns
 * for GPU blocks: those that come back need no prefill, and the last few on the host would otherwise make many steps
 * longer.
 *
 * <p>Owned by: engine thread.
 *
 * @param overlap admits host tokens to layer 0
 * @param queueBypasses as gpu-only's
 * @param piggybackedTokens as gpu-only's
 */
public record HostDrain(Budget budget, AsyncOverlap overlap, int queueBypasses, int piggybackedTokens)
        implements Policy {
    /**
     * Prompts come before host sequences in one of so many steps. Where they always came first, the last host sequences
     * cost {@code h200-26k} osc 1.3 % and azure-code 2 % (simulated, steps with host tokens a fifth longer than
     * predicted); so, nothing.
     */
    private static final int PROMPTS_FIRST = 2;

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> false);
        boolean promptsFirst = state.steps() % PROMPTS_FIRST == 0;
        if (!kept.evicted() && (!promptsFirst || state.waiting().isEmpty())) {
            GpuTier.swapIn(draft);
        }
        Prefills prefills = new Prefills(true, true, sequence -> false, piggybackedTokens);
        int maxRows = prefills.maxRows(draft, kept.unfinished(), overlap.slots(state), 0);
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!kept.evicted()) {
            int hostSequences = state.host().size() + state.inFlight().size();
            prefills.start(draft, draft.gpuSequences() + hostSequences, queueBypasses, maxRows);
        }
        overlap.admit(draft);
        draft.shape(state.inFlight().size() + draft.admissions().size() > 0 ? Shape.ASYNC : Shape.GPU_ONLY);
        why.because(
                "the host drains: %d tokens in flight, %d of them admitted now, %d rows on the GPU",
                state.inFlight().size() + draft.admissions().size(),
                draft.admissions().size(),
                draft.load(0).rows());
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        overlap.completed(draft, achieved);
    }
}
