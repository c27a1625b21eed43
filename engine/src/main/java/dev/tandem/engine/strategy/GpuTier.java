package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.function.Predicate;

/** What all policies do with sequences whose KV is in GPU memory. */
final class GpuTier {
    private GpuTier() {}

    /**
     * The result of {@link #decodes}.
     *
     * @param evicted whether sequences had to leave the GPU
     * @param unfinished sequences that still prefill, or compute tokens that a grammar forces: first those in GPU
     *     blocks, which have room, then those in host blocks
     */
    record Kept(boolean evicted, List<Sequence> unfinished) {}

    /**
     * Adds every request of the GPU decoding run queue to sub-batch 0 (NEO §3.2, step 2, first half). Before that,
     * requests leave the GPU, the last first, until GPU memory can hold all new KV.
     *
     * @param toHost which sequences may move to the host; the others are dropped and computed again
     */
    static Kept decodes(StepDraft draft, Predicate<Sequence> toHost) {
        int needed = 0;
        for (Sequence sequence : draft.state().gpu()) {
            needed += draft.missing(sequence);
        }
        Sequence firstEvicted = null;
        Iterator<Sequence> lastFirst = draft.state().gpu().descendingIterator();
        while (needed > draft.freeGpu()) {
            firstEvicted = lastFirst.next();
            needed -= draft.missing(firstEvicted);
            draft.evict(firstEvicted, toHost.test(firstEvicted));
        }
        List<Sequence> unfinished = new ArrayList<>();
        for (Sequence sequence : draft.state().gpu()) {
            if (sequence == firstEvicted) {
                break;
            }
            if (sequence.remaining() == 1) {
                draft.add(0, sequence, 1, AttentionSite.GPU_FROM_GPU);
            } else {
                unfinished.add(sequence);
                draft.reserve(sequence);
            }
        }
        unfinished.addAll(HostTier.unfinished(draft.state()));
        return new Kept(firstEvicted != null, unfinished);
    }

    /**
     * Swaps host requests in, in their order, while the GPU has ample space (NEO §3.2, step 2, second half).
     *
     * @return whether the GPU had room for all of them
     */
    static boolean swapIn(StepDraft draft) {
        for (Sequence sequence : draft.state().host()) {
            if (draft.ins().contains(sequence) || sequence.remaining() > 1) {
                continue; // it takes part in a rotation of this draft, or is an unfinished prompt
            }
            if (!swapIn(draft, sequence)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Swaps in a host sequence that decodes, if the GPU has ample space.
     *
     * @return whether it has
     */
    static boolean swapIn(StepDraft draft, Sequence sequence) {
        boolean room = draft.gpuSequences() < draft.budget().maxSequences()
                && draft.totalRows() < draft.budget().maxBatchTokens()
                && hasRoom(draft, sequence);
        if (room) {
            draft.bringIn(sequence);
            draft.add(0, sequence, 1, AttentionSite.GPU_FROM_GPU);
        }
        return room;
    }

    /**
     * Moves GPU decodes to the host, those of most context first, while the GPU holds too much KV even without them.
     * That relieves the GPU of most attention. So many leave as may leave together, and fewer where the host has no
     * room for more to grow.
     *
     * @param max number of sequences that leave
     * @param mayLeave whether the sequences of some rows may leave together
     */
    static void swapOutLongest(StepDraft draft, int max, Predicate<List<Row>> mayLeave) {
        SchedulerState state = draft.state();
        List<Row> longest = draft.rows(0).stream()
                .filter(row -> row.site() == AttentionSite.GPU_FROM_GPU
                        && row.sequence().table().tier() == KvTier.GPU
                        && draft.fitsHost(row.sequence())
                        && draft.leavesBlocksFree(row.sequence()))
                .sorted(Comparator.comparingInt((Row row) -> -state.context(row.sequence())))
                .toList();
        int freeGpu = draft.freeGpu();
        int freeHost = draft.freeHost();
        int count = 0;
        while (count < Math.min(max, longest.size())) {
            Sequence sequence = longest.get(count).sequence();
            int freed = draft.freedBy(sequence);
            freeGpu += freed;
            freeHost -= draft.missingOnHost(sequence);
            if (freed == 0 || freeGpu > draft.gpuBlocksKeptFree() || freeHost < 0) {
                break;
            }
            count++;
        }
        while (count > 0 && !mayLeave.test(longest.subList(0, count))) {
            count--;
        }
        for (Row row : longest.subList(0, count)) {
            if (!draft.hostHasRoomFor(row.sequence()) || !draft.roomToGrow(KvTier.HOST, row.sequence())) {
                return;
            }
            draft.moveOut(draft.rows(0).indexOf(row));
        }
    }

    /**
     * Swaps host requests in as {@link #swapIn} does, then pauses in-flight tokens while the GPU has room for their
     * sequences too, which {@link #swapIn} then moves. In flight a token takes about one step per layer; begun anew on
     * the GPU it is one more row of a single step.
     *
     * <p>The executor may release a token some steps later. Until then each draft pauses it again, which changes
     * nothing, and keeps its room.
     */
    static void swapInWithInFlight(StepDraft draft) {
        if (!swapIn(draft) || draft.state().inFlight().isEmpty()) {
            return;
        }
        for (Sequence sequence : draft.state().inFlightInQueueOrder()) {
            if (sequence.state() != RequestState.IN_FLIGHT) {
                continue; // it has been cancelled
            }
            int paused = draft.paused().size();
            boolean room = draft.gpuSequences() + paused < draft.budget().maxSequences()
                    && draft.totalRows() + paused < draft.budget().maxBatchTokens()
                    && hasRoom(draft, sequence);
            if (!room) {
                return;
            }
            draft.pauseToReturn(sequence);
        }
    }

    /**
     * Whether the GPU has room for a sequence: for its tokens, for one more block per GPU sequence, and for the max
     * number of tokens that all are forecast to hold. A sequence alone on the GPU needs no reserve.
     */
    static boolean hasRoom(StepDraft draft, Sequence sequence) {
        return draft.gpuHasRoomFor(sequence, draft.nextBlocks(draft.gpuSequences()))
                && draft.roomToGrow(KvTier.GPU, sequence);
    }
}
