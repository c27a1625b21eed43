package dev.tandem.engine.strategy;

import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Drafts random steps that no strategy would draft. A seed decides on chunks, sub-batches, attention sites, swaps,
 * drops, admissions and pauses, within the limits of the pools, and on their order.
 */
public final class Shuffling implements Policy {
    /** Which plans the executor can run. */
    public enum Takes {
        EVERYTHING,
        /**
         * No GPU attention over host KV, prompts only in sub-batch 0, and at most 64 in-flight tokens that enter or
         * finish within a step. Sequences leave the GPU, then return, and then others start.
         */
        WHAT_CUDA_DOES
    }

    /** Max tokens that enter in a step, and as many that finish within it. */
    private static final int MAX_ENTERING = 32;

    /** Host blocks that prefill offloads leave to the growth of host sequences. */
    private static final int RESERVE = 20;

    private final Budget budget;
    private final boolean everything;
    private final SplittableRandom random;

    public Shuffling(Budget budget, Takes takes, long seed) {
        this.budget = budget;
        this.everything = takes == Takes.EVERYTHING;
        this.random = new SplittableRandom(seed);
    }

    private boolean chance(int of) {
        return random.nextInt(of) == 0;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        draft.shape(Shape.ASYNC);
        List<Runnable> parts = new ArrayList<>();
        state.gpu().forEach(sequence -> parts.add(() -> gpu(draft, sequence)));
        state.host().forEach(sequence -> parts.add(() -> host(draft, sequence)));
        state.waiting()
                .view()
                .forEach(sequence -> parts.add(() -> {
                    if (draft.gpuSequences() + draft.hostSequences() < budget.maxSequences()) {
                        start(draft, sequence);
                    }
                }));
        if (everything && chance(2)) {
            parts.add(() -> HostTier.startingPrefillOffloads(draft).forEach(draft::removePrefillOffload));
            shuffle(parts);
        }
        parts.forEach(Runnable::run);
        state.inFlight().stream()
                .filter(sequence -> chance(5))
                .limit(everything ? Long.MAX_VALUE : MAX_ENTERING)
                .forEach(draft::resume);
        state.inFlight().stream()
                .filter(sequence -> sequence.state() == RequestState.IN_FLIGHT && chance(9))
                .filter(sequence -> draft.gpuHasRoomFor(sequence, draft.gpuSequences()))
                .forEach(draft::pauseToReturn);
        draft.slots(everything ? 1 + random.nextInt(4) : 8 << random.nextInt(4));
        return draft;
    }

    private void shuffle(List<Runnable> parts) {
        for (int i = parts.size() - 1; i > 0; i--) {
            Collections.swap(parts, i, random.nextInt(i + 1));
        }
    }

    private int left(StepDraft draft) {
        return budget.maxBatchTokens() - draft.totalRows();
    }

    private void gpu(StepDraft draft, Sequence sequence) {
        boolean decodes = sequence.remaining() == 1;
        if (decodes && chance(6) && draft.hostHasRoomFor(sequence)) {
            draft.evict(sequence, true);
        } else if (draft.missing(sequence) > draft.freeGpu() || chance(100)) {
            draft.evict(sequence, false);
        } else if (left(draft) > 0 && !chance(5)) {
            int rows = decodes ? 1 : 1 + random.nextInt(Math.min(sequence.remaining(), left(draft)));
            draft.add(decodes || everything ? random.nextInt(2) : 0, sequence, rows, AttentionSite.GPU_FROM_GPU);
        }
    }

    /** Adds the next chunk of a prompt whose earlier chunks are on the host. */
    private void continuePrefill(StepDraft draft, Sequence sequence) {
        int max = draft.prefillOffloadRoom(sequence, Math.min(sequence.remaining(), left(draft)));
        if (max > 0) {
            draft.add(0, sequence, 1 + random.nextInt(max), AttentionSite.GPU_PREFILL_OFFLOAD);
        }
    }

    private void host(StepDraft draft, Sequence sequence) {
        if (sequence.remaining() > 1) {
            continuePrefill(draft, sequence);
            return;
        }
        if (chance(4) && draft.gpuHasRoomFor(sequence, 0) && left(draft) > 0) {
            draft.bringIn(sequence);
            draft.add(everything ? random.nextInt(2) : 0, sequence, 1, AttentionSite.GPU_FROM_GPU);
        } else if (draft.missing(sequence) > draft.freeHost()) {
            draft.dropFromHost(sequence);
        } else if (everything && chance(4)) {
            return;
        } else if (left(draft) > 0 && chance(2)) {
            boolean cpu = !everything || random.nextBoolean();
            draft.add(random.nextInt(2), sequence, 1, cpu ? AttentionSite.CPU_FROM_HOST : AttentionSite.GPU_FROM_HOST);
        } else if (left(draft) > 0 && draft.admissions().size() < MAX_ENTERING) {
            draft.admit(sequence);
        }
    }

    private void start(StepDraft draft, Sequence sequence) {
        int length = sequence.length();
        boolean host = chance(2) && draft.missingOnHost(sequence) + (everything ? 0 : RESERVE) <= draft.freeHost();
        int max = draft.prefillOffloadRoom(sequence, Math.min(length - draft.hostHit(sequence), left(draft)));
        if (host && max > 0 && length <= budget.maxBatchTokens()) {
            draft.start(sequence, 1 + random.nextInt(max), AttentionSite.GPU_PREFILL_OFFLOAD);
        } else if (left(draft) > 0 && draft.gpuHasRoomFor(sequence, 0)) {
            int rows = Math.min(length - draft.hit(sequence), left(draft));
            draft.start(sequence, 1 + random.nextInt(rows), AttentionSite.GPU_FROM_GPU);
        }
    }
}
