package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Predicate;

/** Steps on the GPU's side that the policies share. */
final class GpuTier {
    private GpuTier() {}

    /**
     * @param evicted whether blocks had to be freed
     * @param unfinished sequences that still prefill, in GPU blocks, then in host blocks
     */
    record Kept(boolean evicted, List<Sequence> unfinished) {}

    /**
     * NEO §3.2, step 2, first half: every request of the GPU decoding run queue into batch 0; requests leave, the last
     * in line first, until GPU memory can hold all new KV.
     *
     * @param toHost who may go to the host; the others are dropped and computed again
     */
    static Kept decodes(StepDraft draft, Predicate<Sequence> toHost) {
        int needed = 0;
        for (Sequence sequence : draft.state().gpu()) {
            needed += draft.missing(sequence);
        }
        Sequence firstEvicted = null;
        Iterator<Sequence> min = draft.state().gpu().descendingIterator();
        while (needed > draft.freeGpu()) {
            firstEvicted = min.next();
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
            }
        }
        unfinished.addAll(HostTier.unfinished(draft.state()));
        return new Kept(firstEvicted != null, unfinished);
    }

    /** NEO §3.2, step 2, second half: host requests come in while there is ample space, the first in line first. */
    static void swapIn(StepDraft draft) {
        for (Sequence sequence : draft.state().host()) {
            if (draft.ins().contains(sequence) || sequence.remaining() > 1) {
                continue; // it has just changed places with another, or is a prompt under way
            }
            boolean room = draft.gpuSequences() < draft.budget().maxSequences()
                    && draft.totalRows() < draft.budget().maxBatchTokens()
                    && hasRoom(draft, sequence);
            if (!room) {
                return;
            }
            draft.bringIn(sequence);
            draft.add(0, sequence, 1, AttentionSite.GPU_FROM_GPU);
        }
    }

    /**
     * Room for all of its tokens, a block for each sequence that is there to grow by, and for the max that all of them
     * are expected to hold; alone it needs no reserve.
     */
    static boolean hasRoom(StepDraft draft, Sequence sequence) {
        int blocks = draft.state().kv().blocksFor(KvTier.GPU, sequence.length());
        return blocks + draft.gpuSequences() <= draft.freeGpu() && draft.roomToGrow(KvTier.GPU, sequence);
    }
}
