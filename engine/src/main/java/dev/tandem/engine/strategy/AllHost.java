package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.List;

/** Steps of strategies that keep all KV on the host, except that of unfinished chunked prompts. */
public final class AllHost {
    private AllHost() {}

    /** Drafts sub-batch 0 with all prefills; prompts that are complete in GPU blocks move to the host. */
    public static StepDraft prefills(SchedulerState state, Budget budget, Deviations deviations) {
        StepDraft draft = new StepDraft(state, budget, deviations.has(Deviation.ROOM_TO_GROW));
        List<Sequence> unfinished = new ArrayList<>();
        int needed = 0;
        for (Sequence sequence : state.gpu()) {
            if (sequence.remaining() > 1) {
                unfinished.add(sequence);
                needed += draft.missing(sequence);
            } else if (draft.hostHasRoomFor(sequence)) {
                draft.evict(sequence, true);
            }
        }
        while (needed > draft.freeGpu()) { // for tokens that grammars force
            Sequence last = unfinished.removeLast();
            needed -= draft.missing(last);
            draft.evict(last, false);
        }
        unfinished.addAll(HostTier.unfinished(state));
        Prefills prefills = new Prefills(deviations.has(Deviation.CHUNKED_PREFILL), false, sequence -> true);
        prefills.resume(draft, unfinished);
        prefills.start(
                draft,
                draft.gpuSequences() + state.host().size() + state.inFlight().size());
        return draft;
    }

    /** Host sequences that can decode in this step, as many as blocks and rows allow. */
    public static List<Sequence> decodes(StepDraft draft) {
        List<Sequence> rows = new ArrayList<>();
        List<Sequence> queue = HostTier.decodable(draft);
        int blocks = draft.freeHost();
        int freeRows = draft.budget().maxBatchTokens() - draft.totalRows();
        for (Sequence sequence : queue) {
            int missing = draft.missing(sequence);
            if (rows.size() < freeRows && missing <= blocks) {
                rows.add(sequence);
                blocks -= missing;
            }
        }
        return rows;
    }

    /** Adds decode tokens whose attention the CPU computes. */
    public static void add(StepDraft draft, int batch, List<Sequence> rows) {
        for (Sequence sequence : rows) {
            draft.add(batch, sequence, 1, AttentionSite.CPU_FROM_HOST);
        }
    }
}
