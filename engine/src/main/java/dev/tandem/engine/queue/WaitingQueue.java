package dev.tandem.engine.queue;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.SequenceTimings;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.TreeSet;

/**
 * Sequences without KV, ordered by priority and arrival. A sequence that was preempted for recomputation keeps its
 * place.
 *
 * <p>Owned by: engine thread.
 */
public final class WaitingQueue implements WaitingView {
    /**
     * The order in which sequences run: by arrival, shifted by {@link SequenceTimings#NANOS_PER_PRIORITY} per unit of
     * priority. A request of low priority overtakes later arrivals once it has waited long enough, so it cannot starve.
     * The order of two requests never changes.
     */
    public static final Comparator<Sequence> ORDER = Comparator.comparingLong(
                    (Sequence s) -> s.timings().shiftedByPriority(s.timings().arrivedNanos()))
            .thenComparingLong(Sequence::key);

    private final TreeSet<Sequence> sequences = new TreeSet<>(ORDER);
    private final Collection<Sequence> view = Collections.unmodifiableCollection(sequences);

    /** Adds a sequence at its place in the order. */
    public void add(Sequence sequence) {
        sequences.add(sequence);
    }

    @Override
    public boolean isEmpty() {
        return sequences.isEmpty();
    }

    @Override
    public int size() {
        return sequences.size();
    }

    @Override
    public Sequence first() {
        return sequences.first();
    }

    /** Removes a sequence, if it waits. */
    public void remove(Sequence sequence) {
        sequences.remove(sequence);
    }

    @Override
    public Collection<Sequence> view() {
        return view;
    }
}
