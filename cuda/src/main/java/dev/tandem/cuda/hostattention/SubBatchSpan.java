package dev.tandem.cuda.hostattention;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Measures how long the CPU attends for the same-layer tokens of one sub-batch: in each layer, from the first task's
 * start to the last one's end. That is what a step can wait for. The mean time at work of all workers is less where a
 * token has fewer subtasks than there are workers, and where some of them end sooner than others (ADR 121).
 *
 * <p>The GPU sends no task of the next layer before all of this one are completed, so one span is open at a time.
 *
 * <p>Owned by: the engine thread adds tokens before the step is launched; then workers call {@link #began} and
 * {@link #ended}.
 */
final class SubBatchSpan {
    private static final long NOT_BEGUN = Long.MAX_VALUE;

    private final AtomicLong total;
    private final AtomicLong began = new AtomicLong(NOT_BEGUN);
    private final AtomicInteger completed = new AtomicInteger();
    private volatile int tokens;

    /** @param total nanoseconds of all spans, to which this one's are added */
    SubBatchSpan(AtomicLong total) {
        this.total = total;
    }

    /** Counts one more token, whose task each layer waits for. */
    @SuppressWarnings("NonAtomicVolatileUpdate") // one thread writes it
    void add() {
        tokens++;
    }

    /** Notes that a worker began with a part of a task. */
    void began(long nanos) {
        if (nanos < began.get()) {
            began.accumulateAndGet(nanos, Math::min);
        }
    }

    /** Notes that a task of the layer is done, before its result is announced. */
    void ended(long nanos) {
        if (completed.incrementAndGet() == tokens) {
            completed.set(0);
            total.addAndGet(Math.max(0, nanos - began.getAndSet(NOT_BEGUN)));
        }
    }
}
