package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;

/** Steps on the host's side that the policies share. */
final class HostTier {
    /**
     * In order of arrival those that came last would have no token for as long as the others live; so the CPU's share
     * of a step goes to those that have waited longest for one.
     */
    static final Comparator<Sequence> WAITED_LONGEST = Comparator.comparingLong(
            sequence -> sequence.timings().shiftedByPriority(sequence.timings().lastTokenNanos()));

    private HostTier() {}

    /**
     * Room for a new sequence's tokens, a block for each host token to grow by, and for the max that all of them are
     * expected to hold.
     */
    static boolean hasRoom(StepDraft draft, Sequence sequence) {
        int blocks = draft.state().kv().blocksFor(KvTier.HOST, sequence.length());
        int grow = draft.state().host().size() + draft.state().inFlight().size();
        return draft.fitsHost(sequence) && blocks + grow <= draft.freeHost() && draft.roomToGrow(KvTier.HOST, sequence);
    }

    /**
     * The CPU decoding run queue: host sequences that can decode in this step, the first in line first, and at the end
     * those that this draft swaps out. When the pool cannot hold a new token, the last sequence in line is dropped and
     * computed again.
     */
    static List<Sequence> decodable(StepDraft draft) {
        List<Sequence> queue =
                new ArrayList<>(draft.state().host().size() + draft.outs().size());
        for (Sequence sequence : draft.state().host()) {
            if (sequence.remaining() == 1
                    && (draft.ins().isEmpty() || !draft.ins().contains(sequence))) {
                queue.add(sequence);
            }
        }
        int needed = 0;
        for (Sequence sequence : queue) {
            needed += draft.missing(sequence);
        }
        Iterator<Sequence> min = draft.state().host().descendingIterator();
        while (needed > draft.freeHost() && queue.size() > 1 && min.hasNext()) {
            Sequence victim = min.next();
            if (queue.getLast() == victim) {
                queue.removeLast();
                needed -= draft.missing(victim);
                draft.dropFromHost(victim);
            }
        }
        queue.addAll(draft.outs());
        return queue;
    }

    /** Whether the block that the next token needs is there. */
    static boolean canGrow(StepDraft draft, Sequence sequence) {
        return draft.missing(sequence) <= draft.freeHost()
                && draft.totalRows() < draft.budget().maxBatchTokens();
    }

    /** Prompts of which some chunks are in host blocks, the first in line first. */
    static List<Sequence> unfinished(SchedulerState state) {
        return state.host().stream()
                .filter(sequence -> sequence.remaining() > 1)
                .toList();
    }

    /**
     * NEO §3.2, step 5 puts off prompts whose KV would go to the host and which have not begun: their rows' indices in
     * batch 0, the last first.
     */
    static List<Integer> prefillOffload(StepDraft draft) {
        List<Integer> indices = new ArrayList<>();
        List<Row> rows = draft.rows(0);
        for (int i = rows.size() - 1; i >= 0; i--) {
            if (rows.get(i).site() == AttentionSite.GPU_PREFILL_OFFLOAD
                    && rows.get(i).sequence().computed() == 0) {
                indices.add(i);
            }
        }
        return indices;
    }
}
