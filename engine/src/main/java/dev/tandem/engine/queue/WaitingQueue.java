package dev.tandem.engine.queue;

import dev.tandem.engine.request.Sequence;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.TreeSet;

/**
 * Sequences without KV, by priority, then by arrival; one preempted for recomputation keeps its place in line.
 *
 * <p>Owned by: engine thread.
 */
public final class WaitingQueue {
    /** Lower priority value first, then earlier arrival: the order in which sequences deserve to run. */
    public static final Comparator<Sequence> ORDER =
            Comparator.<Sequence>comparingInt(s -> s.request().priority()).thenComparingLong(Sequence::key);

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
