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

/** Every prompt is prefilled with offload to the host; all decode tokens are in-flight tokens. */
record HostOnly(Budget budget) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        draft.shape(Shape.ASYNC);
        for (Sequence sequence : List.copyOf(state.host())) {
            if (draft.missing(sequence) > draft.freeHost()) {
                draft.dropFromHost(sequence);
            } else if (draft.admissions().size() < 8 && draft.totalRows() < budget.maxBatchTokens()) {
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
        draft.slots(16);
        return draft;
    }
}
