package dev.tandem.cpu;

import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import java.util.List;
import java.util.SplittableRandom;

/**
 * Steps that no strategy would make: random chunks, sub-batches, readers, moves, drops, admissions and resumptions,
 * within what the pools allow.
 */
final class RandomPolicy implements Policy {
    private final Budget budget;
    private final SplittableRandom random;

    RandomPolicy(Budget budget, long seed) {
        this.budget = budget;
        this.random = new SplittableRandom(seed);
    }

    private boolean chance(int of) {
        return random.nextInt(of) == 0;
    }

    private int left(StepDraft draft) {
        return budget.maxBatchTokens() - draft.totalRows();
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        state.gpu().forEach(sequence -> gpu(draft, sequence));
        state.host().forEach(sequence -> host(draft, sequence));
        for (Sequence sequence : List.copyOf(state.waiting().view())) {
            start(draft, sequence);
        }
        for (Sequence sequence : state.inFlight()) {
            if (chance(5)) {
                draft.resume(sequence);
            }
        }
        draft.slots(1 + random.nextInt(4));
        return draft;
    }

    private void gpu(StepDraft draft, Sequence sequence) {
        boolean decodes = sequence.remaining() == 1;
        if (decodes && chance(5) && draft.hostHasRoomFor(sequence)) {
            draft.evict(sequence, true);
        } else if (draft.missing(sequence) > draft.freeGpu() || chance(25)) {
            draft.evict(sequence, false);
        } else if (left(draft) > 0 && !chance(4)) {
            int rows = decodes ? 1 : 1 + random.nextInt(Math.min(sequence.remaining(), left(draft)));
            draft.add(random.nextInt(2), sequence, rows, KvReader.GPU_FROM_GPU);
        }
    }

    /** The next chunk of a prompt of which some are on the host. */
    private void land(StepDraft draft, Sequence sequence) {
        int most = Math.min(Math.min(sequence.remaining(), left(draft)), draft.landingRoom() - sequence.computed());
        if (most > 0) {
            draft.add(0, sequence, 1 + random.nextInt(most), KvReader.GPU_WHILE_LANDING);
        }
    }

    private void host(StepDraft draft, Sequence sequence) {
        if (sequence.remaining() > 1) {
            land(draft, sequence);
            return;
        }
        int blocks = draft.state().kv().blocksFor(Place.GPU, sequence.length());
        if (chance(5) && blocks <= draft.freeGpu() && left(draft) > 0) {
            draft.bringIn(sequence);
            draft.add(random.nextInt(2), sequence, 1, KvReader.GPU_FROM_GPU);
        } else if (draft.missing(sequence) > draft.freeHost()) {
            draft.dropFromHost(sequence);
        } else if (left(draft) > 0) {
            switch (random.nextInt(4)) {
                case 0 -> draft.add(random.nextInt(2), sequence, 1, KvReader.CPU_FROM_HOST);
                case 1 -> draft.add(random.nextInt(2), sequence, 1, KvReader.GPU_FROM_HOST);
                case 2 -> draft.admit(sequence);
                default -> { }
            }
        }
    }

    private void start(StepDraft draft, Sequence sequence) {
        int length = sequence.length();
        int blocks = draft.state().kv().blocksFor(Place.GPU, length);
        int most = Math.min(Math.min(length, left(draft)), draft.landingRoom());
        if (most > 0 && length <= budget.maxBatchTokens() && draft.state().kv().blocksFor(Place.HOST, length) <= draft.freeHost() && chance(2)) {
            draft.start(sequence, 1 + random.nextInt(most), KvReader.GPU_WHILE_LANDING);
        } else if (left(draft) > 0 && blocks <= draft.freeGpu() && chance(2)) {
            draft.start(sequence, 1 + random.nextInt(Math.min(length, left(draft))), KvReader.GPU_FROM_GPU);
        }
    }
}
