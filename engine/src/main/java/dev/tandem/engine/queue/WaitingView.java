package dev.tandem.engine.queue;

import dev.tandem.engine.request.Sequence;
import java.util.Collection;

/** Read access to the waiting queue, for scheduling decisions. */
public interface WaitingView {
    /** True when no sequence waits. */
    boolean isEmpty();

    /** Sequences that wait. */
    int size();

    /**
     * The sequence to start first.
     *
     * @throws java.util.NoSuchElementException when none waits
     */
    Sequence first();

    /** The sequences in the order in which they should start; unmodifiable. */
    Collection<Sequence> view();
}
