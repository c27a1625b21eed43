package dev.tandem.engine.strategy;

import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import java.util.List;
import java.util.SplittableRandom;

/** Seeded chance decides in each step where every sequence goes, and who waits for whom. */
public final class Shuffling implements Policy {
    private final Budget budget;
    private final SplittableRandom random;

    public Shuffling(Budget budget, long seed) {
        this.budget = budget;
        this.random = new SplittableRandom(seed);
    }

    private boolean chance(int of) {
        return random.nextInt(of) == 0;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, budget);
        draft.shape(Shape.ASYNC);
        List.copyOf(state.gpu()).forEach(sequence -> gpu(draft, sequence));
        List.copyOf(state.host()).forEach(sequence -> host(draft, sequence));
        int running = draft.gpuSequences() + state.host().size() + state.inFlight().size();
        for (Sequence sequence : state.waiting().view()) {
            if (running++ < budget.maxSequences()) {
                start(draft, sequence);
            }
        }
        draft.slots(8 << random.nextInt(4));
        return draft;
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
            draft.add(decodes ? random.nextInt(2) : 0, sequence, rows, KvReader.GPU_FROM_GPU);
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
        if (chance(4) && blocks <= draft.freeGpu() && left(draft) > 0) {
            draft.bringIn(sequence);
            draft.add(0, sequence, 1, KvReader.GPU_FROM_GPU);
        } else if (draft.missing(sequence) > draft.freeHost()) {
            draft.dropFromHost(sequence);
        } else if (left(draft) > 0 && chance(2)) {
            draft.add(random.nextInt(2), sequence, 1, KvReader.CPU_FROM_HOST);
        } else if (left(draft) > 0 && draft.admissions().size() < 64) {
            draft.admit(sequence);
        }
    }

    private void start(StepDraft draft, Sequence sequence) {
        int length = sequence.length();
        boolean host = chance(2) && draft.state().kv().blocksFor(Place.HOST, length) + 20 <= draft.freeHost();
        int most = Math.min(Math.min(length, left(draft)), draft.landingRoom());
        if (host && most > 0 && length <= budget.maxBatchTokens()) {
            draft.start(sequence, 1 + random.nextInt(most), KvReader.GPU_WHILE_LANDING);
        } else if (left(draft) > 0 && draft.state().kv().blocksFor(Place.GPU, length) <= draft.freeGpu()) {
            draft.start(sequence, 1 + random.nextInt(Math.min(length, left(draft))), KvReader.GPU_FROM_GPU);
        }
    }
}
