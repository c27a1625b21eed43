package dev.tandem.engine.schedule;

import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.kv.Place;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.request.RequestState;
import dev.tandem.engine.request.Sequence;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The baseline, {@code gpu-only}: one batch a step, decodes first, prefill chunks in what is left of the budget.
 *
 * <p>A sequence starts when its whole prompt has blocks and one more is free for each running sequence to grow into;
 * when the pool still runs out, the sequence that deserves it least is preempted.
 *
 * <p>Owned by: engine thread.
 */
public final class GpuOnlyScheduler implements Scheduler {
    private final Budget budget;
    private final Preemption preemption;
    private final Placement placement;

    /** @param placement where sequences start; anything but {@link Placement#ALL_GPU} is for comparisons */
    public GpuOnlyScheduler(Budget budget, Preemption preemption, Placement placement) {
        this.budget = budget;
        this.preemption = preemption;
        this.placement = placement;
    }

    @Override
    public StepPlan plan(SchedulerState state) {
        List<Swap> swaps = new ArrayList<>();
        boolean full = growRunning(state, swaps);
        if (!full) {
            swapIn(state, swaps);
            if (state.swapped().isEmpty()) {
                admit(state);
            }
        }
        return StepPlan.unified(state.nextStep(), swaps, chunks(state));
    }

    /** Gives every running sequence the block its next token needs; true when that took preemption. */
    private boolean growRunning(SchedulerState state, List<Swap> swaps) {
        boolean preempted = false;
        for (Sequence sequence : List.copyOf(state.running())) {
            while (sequence.state() == RequestState.RUNNING && !state.kv().grow(sequence, sequence.length())) {
                preempt(state, victim(state, sequence.table().place()), swaps);
                preempted = true;
            }
        }
        return preempted;
    }

    /** The sequence that deserves its blocks least, among those in the place that is full. */
    private static Sequence victim(SchedulerState state, Place place) {
        for (Sequence sequence : state.running().descendingSet()) {
            if (sequence.table().place() == place) {
                return sequence;
            }
        }
        throw new IllegalStateException("the " + place + " pool is full, yet no running sequence holds blocks of it");
    }

    private void preempt(SchedulerState state, Sequence victim, List<Swap> swaps) {
        state.running().remove(victim);
        state.countPreemption();
        victim.countPreemption();
        if (preemption == Preemption.SWAP && victim.table().place() == Place.GPU && victim.computed() > 0) {
            Optional<Swap> swap = state.kv().move(victim, Place.HOST);
            if (swap.isPresent()) {
                swaps.add(swap.get());
                victim.state(RequestState.SWAPPED);
                state.swapped().add(victim);
                return;
            }
        }
        state.kv().release(victim);
        victim.restart();
        victim.state(RequestState.WAITING);
        state.waiting().add(victim);
    }

    private void swapIn(SchedulerState state, List<Swap> swaps) {
        while (!state.swapped().isEmpty() && state.running().size() < budget.maxSequences()) {
            Sequence sequence = state.swapped().first();
            if (!hasRoom(state, Place.GPU, state.kv().blocksFor(sequence.length()))) {
                return;
            }
            swaps.add(state.kv().move(sequence, Place.GPU).orElseThrow());
            start(state, sequence);
            state.swapped().remove(sequence);
        }
    }

    private void admit(SchedulerState state) {
        while (!state.waiting().isEmpty() && state.running().size() < budget.maxSequences()) {
            Sequence sequence = state.waiting().first();
            Place home = placement.home(sequence);
            if (!hasRoom(state, home, state.kv().blocksFor(sequence.length()))) {
                return;
            }
            state.waiting().remove(sequence);
            state.kv().place(sequence, home);
            start(state, sequence);
        }
    }

    /** Room for the blocks themselves and for every running sequence to grow by one; an empty pool needs no reserve. */
    private static boolean hasRoom(SchedulerState state, Place place, int blocks) {
        int reserve = (int) state.running().stream().filter(s -> s.table().place() == place).count();
        return blocks + reserve <= state.kv().pool(place).free();
    }

    private static void start(SchedulerState state, Sequence sequence) {
        if (!state.kv().grow(sequence, sequence.length())) {
            throw new IllegalStateException(sequence + " was admitted without room for its tokens");
        }
        sequence.state(RequestState.RUNNING);
        state.running().add(sequence);
    }

    private List<Chunk> chunks(SchedulerState state) {
        List<Chunk> chunks = new ArrayList<>(state.running().size());
        int left = budget.maxBatchTokens();
        for (Sequence sequence : state.running()) {
            if (sequence.remaining() == 1) {
                chunks.add(chunk(sequence, 1));
                left--;
            }
        }
        for (Sequence sequence : state.running()) {
            int rows = Math.min(Math.min(sequence.remaining(), budget.maxChunkTokens()), left);
            if (sequence.remaining() > 1 && rows > 0) {
                chunks.add(chunk(sequence, rows));
                left -= rows;
            }
        }
        return chunks;
    }

    private static Chunk chunk(Sequence sequence, int rows) {
        boolean last = rows == sequence.remaining();
        return new Chunk(
                sequence.key(),
                sequence.computed(),
                sequence.tokens(sequence.computed(), rows),
                sequence.table().toArray(),
                KvReader.nearest(sequence.table().place()),
                last ? Optional.of(sequence.sampler()) : Optional.empty());
    }
}
