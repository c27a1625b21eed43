package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
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
            boolean room = draft.gpuSequences() < draft.budget().maxSequences()
                    && draft.totalRows() < draft.budget().maxBatchTokens()
                    && hasRoom(draft, sequence);
            if (!room) {
                return false;
            }
            draft.bringIn(sequence);
            draft.add(0, sequence, 1, AttentionSite.GPU_FROM_GPU);
        }
        return true;
    }

    /**
     * Swaps the GPU decode of most context out where the GPU holds more KV than it should even without it. It is the
     * one whose attention the GPU is relieved of most.
     *
     * @param mayLeave which sequences may
     */
    static void swapOutLongest(StepDraft draft, Predicate<Sequence> mayLeave) {
        int longest = -1;
        List<Row> rows = draft.rows(0);
        for (int i = 0; i < rows.size(); i++) {
            Sequence sequence = rows.get(i).sequence();
            boolean candidate = rows.get(i).site() == AttentionSite.GPU_FROM_GPU
                    && sequence.table().tier() == KvTier.GPU
                    && mayLeave.test(sequence)
                    && draft.fitsHost(sequence)
                    && draft.hostHasRoomFor(sequence);
            if (candidate
                    && (longest < 0
                            || sequence.length() > rows.get(longest).sequence().length())) {
                longest = i;
            }
        }
        if (longest >= 0
                && draft.freeGpu() + draft.freedBy(rows.get(longest).sequence()) <= draft.gpuBlocksKeptFree()) {
            draft.moveOut(longest);
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
     * number of tokens that all are forecast to hold. A sequence alone on the GPU needs no reserve. The blocks that
     * {@link GpuKvLimit} keeps free are for a sequence that is too long for the others.
     */
    static boolean hasRoom(StepDraft draft, Sequence sequence) {
        int reserve = draft.nextBlocks(draft.gpuSequences());
        int kept = draft.gpuBlocksKeptFree();
        boolean tooLong = draft.missingOnGpu(sequence) + reserve + kept
                > draft.state().kv().pool(KvTier.GPU).size();
        return draft.gpuHasRoomFor(sequence, reserve + (tooLong ? 0 : kept)) && draft.roomToGrow(KvTier.GPU, sequence);
    }
}
