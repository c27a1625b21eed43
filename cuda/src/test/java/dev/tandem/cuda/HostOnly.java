package dev.tandem.cuda;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.List;

/**
 * Every prompt is prefilled with offload to the host; all decode tokens are in-flight tokens.
 *
 * @param cohort whether tokens enter only while none is in flight, and as many as there are
 */
record HostOnly(Budget budget, boolean cohort) implements Policy {
    /** Max tokens that enter in a step where tokens are spread over the layers. */
    private static final int ENTERING = 8;

    HostOnly(Budget budget) {
        this(budget, false);
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        draft.shape(Shape.ASYNC);
        int inFlight = state.inFlight().size();
        int entering = !cohort ? ENTERING : inFlight == 0 ? budget.maxSequences() : 0;
        for (Sequence sequence : List.copyOf(state.host())) {
            if (draft.missing(sequence) > draft.freeHost()) {
                draft.dropFromHost(sequence);
            } else if (draft.admissions().size() < entering && draft.totalRows() < budget.maxBatchTokens()) {
                draft.admit(sequence);
            }
        }
        int running = state.host().size() + state.inFlight().size();
        for (Sequence sequence : state.waiting().view()) {
            int blocks = state.kv().blocksFor(KvTier.HOST, sequence.length());
            if (running++ >= budget.maxSequences()
                    || sequence.length() > budget.maxBatchTokens() - draft.totalRows()
                    || draft.prefillOffloadRoom(sequence, sequence.length()) < sequence.length()
                    || blocks + state.inFlight().size() + draft.admissions().size() > draft.freeHost()) {
                break;
            }
            draft.start(sequence, sequence.length(), AttentionSite.GPU_PREFILL_OFFLOAD);
        }
        draft.slots(cohort ? inFlight + draft.admissions().size() : 2 * ENTERING);
        return draft;
    }
}
