package dev.tandem.engine.queue;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.SequenceTimings;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.TreeSet;

/**
 * Sequences without KV, in the order in which they deserve to run; one preempted for recomputation keeps its place in
 * line.
 *
 * <p>Owned by: engine thread.
 */
public final class WaitingQueue {
    /**
     * The order in which sequences deserve to run: by arrival, where each unit of priority counts as
     * {@link SequenceTimings#NANOS_PER_PRIORITY} of later arrival. So a request of low priority gains on those that
     * come after it and cannot starve, and the order of two requests never changes.
     */
    public static final Comparator<Sequence> ORDER = Comparator.comparingLong(
                    (Sequence s) -> s.timings().shiftedByPriority(s.timings().arrivedNanos()))
            .thenComparingLong(Sequence::key);

    private final TreeSet<Sequence> sequences = new TreeSet<>(ORDER);

    public void add(Sequence sequence) {
        sequences.add(sequence);
    }

    public boolean isEmpty() {
        return sequences.isEmpty();
    }

    public int size() {
        return sequences.size();
    }

    public Sequence first() {
        return sequences.first();
    }

    public void remove(Sequence sequence) {
        sequences.remove(sequence);
    }

    public Collection<Sequence> view() {
        return Collections.unmodifiableCollection(sequences);
    }
}
