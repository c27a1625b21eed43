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

/** What all policies do with sequences whose KV is in host memory. */
final class HostTier {
    /**
     * Orders sequences by the time of their last token, the earliest first. In order of arrival the last sequences
     * would get no token until earlier ones have ended.
     */
    static final Comparator<Sequence> WAITED_LONGEST = Comparator.comparingLong(
            sequence -> sequence.timings().shiftedByPriority(sequence.timings().lastTokenNanos()));

    private HostTier() {}

    /**
     * Whether the host has room for a new sequence: for its tokens, for one more block per host sequence, and for the
     * max number of tokens that all are forecast to hold.
     */
    static boolean hasRoom(StepDraft draft, Sequence sequence) {
        int blocks = draft.missingOnHost(sequence);
        int grow = draft.nextBlocks(
                draft.state().host().size() + draft.state().inFlight().size());
        return draft.fitsHost(sequence) && blocks + grow <= draft.freeHost() && draft.roomToGrow(KvTier.HOST, sequence);
    }

    /**
     * The CPU decoding run queue: host sequences that can decode in this step, in their order, then those that this
     * draft swaps out. While the pool cannot hold the new tokens, the last sequence is dropped; it is computed again.
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
        Iterator<Sequence> lastFirst = draft.state().host().descendingIterator();
        while (needed > draft.freeHost() && queue.size() > 1 && lastFirst.hasNext()) {
            Sequence victim = lastFirst.next();
            if (queue.getLast() == victim) {
                queue.removeLast();
                needed -= draft.missing(victim);
                draft.dropFromHost(victim);
            }
        }
        queue.addAll(draft.outs());
        return queue;
    }

    /** Host sequences that can decode in this step, and those that this draft swaps out, without any change to it. */
    static List<Sequence> candidates(StepDraft draft) {
        List<Sequence> queue = new ArrayList<>();
        for (Sequence sequence : draft.state().host()) {
            if (sequence.remaining() == 1
                    && !draft.ins().contains(sequence)
                    && !draft.drops().contains(sequence)) {
                queue.add(sequence);
            }
        }
        queue.addAll(draft.outs());
        return queue;
    }

    /** Whether the step has room for the sequence's next token: a host block and a row of the batch. */
    static boolean canGrow(StepDraft draft, Sequence sequence) {
        return draft.missing(sequence) <= draft.freeHost()
                && draft.totalRows() < draft.budget().maxBatchTokens();
    }

    /** Prompts with some chunks in host blocks, in their order. */
    static List<Sequence> unfinished(SchedulerState state) {
        return state.host().stream()
                .filter(sequence -> sequence.remaining() > 1)
                .toList();
    }

    /**
     * Indices in sub-batch 0, the last first, of prefill offloads that start in this step. NEO §3.2, step 5 may
     * postpone them.
     */
    static List<Integer> startingPrefillOffloads(StepDraft draft) {
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
