package dev.tandem.engine.schedule;

import java.util.ArrayList;
import java.util.List;

/**
 * A ring of the last decisions.
 *
 * <p>Owned by: the engine thread adds; any thread reads.
 */
public final class DecisionLog {
    private final Decision[] ring;
    private long count;

    /** Creates a log that keeps {@code capacity} decisions. */
    public DecisionLog(int capacity) {
        this.ring = new Decision[capacity];
    }

    synchronized void add(Decision decision) {
        ring[(int) (count++ % ring.length)] = decision;
    }

    /** The last decisions, at most {@code limit}, oldest first. */
    public synchronized List<Decision> last(int limit) {
        int wanted = (int) Math.min(Math.min(limit, ring.length), count);
        List<Decision> list = new ArrayList<>(wanted);
        for (long i = count - wanted; i < count; i++) {
            list.add(ring[(int) (i % ring.length)]);
        }
        return list;
    }
}
