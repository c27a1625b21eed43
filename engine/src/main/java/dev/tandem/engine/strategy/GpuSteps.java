package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.List;

/** Steps of strategies in which the GPU works alone and prompts have steps of their own. */
public final class GpuSteps {
    private GpuSteps() {}

    /**
     * Drafts a step of whole prompts, in order of arrival until one does not fit. It is empty while a sequence is
     * swapped out. A prompt that is longer than a step is cut, and no other starts in its steps. Nor does any in steps
     * of tokens that grammars force.
     */
    public static StepDraft wholePrompts(SchedulerState state, Budget budget) {
        StepDraft draft = new StepDraft(state, budget, false);
        List<Sequence> unfinished = state.gpu().stream()
                .filter(sequence -> sequence.remaining() > 1)
                .toList();
        for (Sequence sequence : unfinished) {
            int rows = Math.min(sequence.remaining(), budget.maxBatchTokens() - draft.totalRows());
            if (rows > 0 && draft.missing(sequence) <= draft.freeGpu()) { // else the next step of decodes makes room
                draft.add(0, sequence, rows, AttentionSite.GPU_FROM_GPU);
            }
        }
        if (!unfinished.isEmpty()) {
            return draft;
        }
        if (!state.host().isEmpty() || !state.inFlight().isEmpty()) {
            return draft;
        }
        for (Sequence sequence : state.waiting().view()) {
            if (draft.defers(sequence)) {
                continue;
            }
            int left = budget.maxBatchTokens() - draft.totalRows();
            int rows = sequence.length() - draft.hit(sequence);
            boolean cut = draft.totalRows() == 0 && rows > left;
            if (rows > left && !cut
                    || draft.gpuSequences() >= budget.maxSequences()
                    || !draft.gpuHasRoomFor(sequence, 0)) {
                return draft;
            }
            draft.start(sequence, Math.min(left, rows), AttentionSite.GPU_FROM_GPU);
            if (cut) {
                return draft;
            }
        }
        return draft;
    }

    /** Drafts a step of all decodes. The last sequences are preempted until the GPU can hold the new KV. */
    public static StepDraft decodes(SchedulerState state, Budget budget, Preemption preemption) {
        StepDraft draft = new StepDraft(state, budget, false);
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> preemption == Preemption.SWAP);
        if (!kept.evicted()) {
            GpuTier.swapIn(draft);
        }
        return draft;
    }
}
