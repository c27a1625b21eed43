package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixUse;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Applies drafts and the outcome of steps to the scheduler's state: the only class that changes {@link SchedulerState}
 * and grants or frees KV blocks.
 *
 * <p>Owned by: engine thread.
 */
public final class PlanCommitter {
    /**
     * Max host blocks per step that cold prefixes are copied to. With 64 tokens of 128 KiB each that is 64 MiB, of
     * which only the first layers' part delays a step. Not tuned.
     */
    private static final int MAX_DEMOTIONS = 8;

    private final SchedulerState state;
    private final KvCache kv;

    /** Creates the one committer of a state. */
    public PlanCommitter(SchedulerState state) {
        this.state = state;
        this.kv = state.cache();
    }

    /** Sets the time at which planning of the next step begins. */
    public void now(long nanos) {
        state.now(nanos);
    }

    /** Adds a new sequence to the waiting queue. */
    public void enqueue(Sequence sequence) {
        state.queue().add(sequence);
    }

    /** Carries a draft out: grants and frees blocks, moves sequences between tiers and queues, numbers the step. */
    public StepPlan commit(StepDraft draft) {
        BlockLedger blocks = draft.blocks();
        blocks.drops().forEach(this::drop);
        draft.bypassed().forEach(sequence -> sequence.timings().countBypassed());
        // before any block is granted: a hit must not be evicted
        blocks.uses().forEach(kv::claim);
        List.of(draft.rows(0), draft.rows(1)).forEach(rows -> rows.forEach(row -> startIfWaiting(row, blocks)));
        // before the moves: staging must not lie in blocks that a move of the same step still reads
        int[] staging = kv.borrow(draft.stagingBlocks());
        List<Swap> swaps = swaps(blocks);
        Set<Sequence> late = LateBitmasks.leftOut(draft);
        List<Chunk> first = chunks(draft.rows(0), late);
        List<Chunk> second = chunks(draft.rows(1), late);
        List<Admission> admissions = admissions(draft.admissions());
        swaps = withDemotions(swaps);
        countCopied(swaps);
        blocks.uses().forEach(kv::endCopy);
        kv.giveBack(staging);
        draft.paused().forEach(state::pause);
        int inFlight = state.inFlight().size();
        state.scheduled(draft.rows(0).size() + draft.rows(1).size() + inFlight);
        List<Long> resume = draft.resumed().isEmpty()
                ? List.of()
                : draft.resumed().stream().map(Sequence::key).toList();
        return new StepPlan(
                state.nextStep(),
                swaps,
                subBatches(first, second, staging, !resume.isEmpty()),
                admissions,
                slots(draft.slots(), inFlight - draft.resumed().size()),
                state.takePausing(),
                resume);
    }

    /**
     * Only the first sub-batch has prefills. Tokens that finish have a second one also where it has no rows: in the
     * first, the GPU would do nothing while the CPU attends for them.
     */
    private static List<SubBatch> subBatches(
            List<Chunk> first, List<Chunk> second, int[] staging, boolean finishesTokens) {
        List<SubBatch> batches = new ArrayList<>(2);
        if (!first.isEmpty()) {
            batches.add(new SubBatch(first, staging));
        }
        if (!second.isEmpty() || !first.isEmpty() && finishesTokens) {
            batches.add(new SubBatch(second));
        }
        return batches;
    }

    private void drop(Sequence sequence) {
        state.unsettle(sequence);
        state.countPreemption();
        sequence.tiers().countPreemption();
        sequence.moved(Optional.empty(), state.now());
        kv.release(sequence);
        sequence.restart();
        sequence.state(RequestState.WAITING);
        state.queue().add(sequence);
    }

    /** Copies to the host come before those to the GPU, which may take the blocks that they free. */
    private List<Swap> swaps(BlockLedger blocks) {
        if (blocks.outs().isEmpty() && blocks.ins().isEmpty() && blocks.uses().isEmpty()) {
            return List.of();
        }
        List<Swap> swaps = new ArrayList<>();
        for (Sequence sequence : blocks.outs()) {
            state.countPreemption();
            sequence.tiers().countPreemption();
            swaps.addAll(move(sequence, blocks.usedBy(sequence, KvTier.HOST)));
        }
        addCopies(blocks, KvTier.HOST, swaps);
        addCopies(blocks, KvTier.GPU, swaps);
        for (Sequence sequence : blocks.ins()) {
            swaps.addAll(move(sequence, blocks.usedBy(sequence, KvTier.GPU)));
        }
        return swaps;
    }

    private void addCopies(BlockLedger blocks, KvTier to, List<Swap> swaps) {
        blocks.uses().forEach((sequence, use) -> {
            if (use.tier() == to && use.copies()) {
                List<Swap> copies = kv.copy(sequence, use);
                if (copies.isEmpty()) {
                    throw new IllegalStateException("the " + to + " tier has no room for the prefix of " + sequence
                            + ", which the draft copies there; its block counts are wrong");
                }
                swaps.addAll(copies);
            }
        });
    }

    /**
     * Adds copies of cold prefixes to the host. They come last: they read GPU blocks that this plan grants to nobody,
     * and write host blocks that no copy of this plan reads.
     */
    private List<Swap> withDemotions(List<Swap> swaps) {
        if (swaps.stream().anyMatch(swap -> swap.to() == KvTier.GPU)) {
            return swaps;
        }
        List<Swap> demotions = kv.demote(MAX_DEMOTIONS);
        if (demotions.isEmpty()) {
            return swaps;
        }
        List<Swap> all = new ArrayList<>(swaps);
        all.addAll(demotions);
        return all;
    }

    private void countCopied(List<Swap> swaps) {
        for (int i = 0; i < swaps.size(); i++) { // without an iterator, in every step
            state.countCopied(swaps.get(i).to(), swaps.get(i).tokens());
        }
    }

    private List<Swap> move(Sequence sequence, PrefixUse use) {
        state.unsettle(sequence);
        List<Swap> copies = kv.move(sequence, use);
        if (copies.isEmpty()) {
            throw new IllegalStateException("the " + use.tier() + " tier has no room for " + sequence
                    + ", which the draft moves there; its block counts are wrong");
        }
        state.settle(sequence);
        return copies;
    }

    private void startIfWaiting(StepDraft.Row row, BlockLedger blocks) {
        Sequence sequence = row.sequence();
        if (sequence.state() == RequestState.WAITING) {
            state.queue().remove(sequence);
            kv.start(sequence, blocks.usedBy(sequence, row.site().tier()));
            state.settle(sequence);
        }
    }

    private List<Chunk> chunks(List<StepDraft.Row> rows, Set<Sequence> leftOut) {
        List<Chunk> chunks = new ArrayList<>(rows.size());
        for (StepDraft.Row row : rows) {
            Sequence sequence = row.sequence();
            grow(sequence);
            if (leftOut.contains(sequence)) {
                continue;
            }
            if (row.site() == AttentionSite.GPU_PREFILL_OFFLOAD && kv.staging().isUsed()) {
                countOffloaded(sequence, row.rows());
            }
            boolean last = row.rows() == sequence.remaining();
            chunks.add(new Chunk(
                    sequence.key(),
                    sequence.computed(),
                    sequence.tokens(sequence.computed(), row.rows()),
                    sequence.table().views(),
                    row.site(),
                    last ? Optional.of(sequence.sampler()) : Optional.empty(),
                    sequence.request().scorer()));
        }
        return chunks;
    }

    /** Counts the copies of a prompt's chunk: KV of earlier chunks returns to staging, and that of the chunk leaves. */
    private void countOffloaded(Sequence sequence, int rows) {
        int start = sequence.computed();
        for (int group = 0; group < sequence.table().groups(); group++) {
            int behind = sequence.table().group(group).first() * kv.blockTokens(KvTier.HOST);
            state.countCopied(KvTier.GPU, start - behind);
            state.countCopied(KvTier.HOST, kv.staging().leaving(start, rows));
        }
    }

    private List<Admission> admissions(List<Sequence> sequences) {
        if (sequences.isEmpty()) {
            return List.of();
        }
        List<Admission> admissions = new ArrayList<>(sequences.size());
        for (Sequence sequence : sequences) {
            grow(sequence);
            int position = sequence.computed();
            admissions.add(new Admission(
                    sequence.key(),
                    position,
                    sequence.token(position),
                    sequence.table().views(),
                    sequence.sampler()));
            state.enterInFlight(sequence);
        }
        return admissions;
    }

    private void grow(Sequence sequence) {
        if (!kv.grow(sequence, sequence.length())) {
            throw new IllegalStateException("the " + sequence.table().tier() + " tier has no blocks for the tokens of "
                    + sequence + ", which the draft schedules; its block counts are wrong");
        }
    }

    /**
     * Slots per layer of the step. Under strategies that set none, in-flight tokens still continue: they hold blocks,
     * and their clients wait.
     *
     * @param others in-flight tokens besides those that finish within the step
     */
    private static int slots(int drafted, int others) {
        if (others == 0) {
            return 0;
        }
        return drafted > 0 ? drafted : 1 + others / 8;
    }

    /**
     * Takes back an in-flight sequence that the executor has released, because its token was sampled or paused. A
     * cancelled one is freed.
     *
     * @return the sequence, or null when it had been cancelled
     */
    public @Nullable Sequence endInFlight(long key) {
        Sequence sequence = state.leaveInFlight(key);
        if (sequence.state() instanceof RequestState.Finished) {
            kv.release(sequence);
            return null;
        }
        state.returnToHost(sequence);
        return sequence;
    }

    /**
     * Takes back an in-flight sequence that the executor has given up.
     *
     * @param stillInUse whether its blocks may still be written; they are then never granted again
     */
    public void lose(long key, boolean stillInUse) {
        Sequence sequence = state.leaveInFlight(key);
        if (stillInUse) {
            quarantine(sequence);
        } else {
            kv.release(sequence);
        }
    }

    /** Takes the sequence's blocks out of use for good, because they may still be written. It holds none afterwards. */
    public void quarantine(Sequence sequence) {
        kv.quarantine(sequence);
        sequence.restart();
    }

    /**
     * Lets later sequences hit what the sequence has computed. The executor owns the blocks of an in-flight sequence,
     * so these are registered after it has returned.
     *
     * @param tokens from the start whose KV is computed
     */
    public void register(Sequence sequence, int tokens) {
        if (!state.isInFlight(sequence.key())) {
            kv.register(sequence, tokens);
        }
    }

    /**
     * Frees what lies behind the sequence's window, once the steps that read it have run or are submitted. The executor
     * owns the blocks of an in-flight sequence.
     */
    public void slide(Sequence sequence) {
        if (kv.layout().slides() && !state.isInFlight(sequence.key())) {
            kv.slide(sequence);
        }
    }

    /** Lets no later sequence hit what the sequence has computed, because it may be wrong. */
    public void purge(Sequence sequence) {
        kv.purge(sequence);
    }

    /** Empties the prefix cache. */
    public void resetPrefixes() {
        kv.resetPrefixes(state.live());
    }

    /**
     * Removes a sequence and frees its blocks. The executor owns the blocks of an in-flight sequence: the next step
     * pauses it, and {@link #endInFlight} frees them.
     */
    public void remove(Sequence sequence) {
        if (state.isInFlight(sequence.key())) {
            state.pause(sequence);
            return;
        }
        if (sequence.outputLength() > 0) {
            state.countEnded(sequence.outputLength(), isAborted(sequence));
        }
        state.unsettle(sequence);
        kv.release(sequence);
    }

    private static boolean isAborted(Sequence sequence) {
        return sequence.state() instanceof RequestState.Finished(FinishReason reason) && reason == FinishReason.ABORT;
    }

    /** Removes all sequences because the executor is gone; frees all blocks that are not quarantined. */
    public void abandon() {
        state.live().forEach(kv::release);
        state.clear();
    }
}
