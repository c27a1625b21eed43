package dev.tandem.cuda.hostattention;

import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;

/**
 * One token of one sequence whose KV is on the host tier and whose attention the CPU computes.
 *
 * <p>Owned by: the engine thread; workers read it, write {@link #layer}, and report through
 * {@link HostAttentionQueues}. Both change {@link #state}.
 */
public final class HostToken {
    /**
     * What is to become of an in-flight token. {@link #GOES_ON} may change to any other state; no other state changes.
     * So a token that a step waits for is never released, and a failed one is never waited for.
     */
    private enum State {
        GOES_ON,
        /** The next worker that takes its task releases it. Set by the engine thread. */
        PAUSED,
        /** A step takes it through all remaining layers, and waits for every result. Set by the engine thread. */
        RESUMED,
        /** Its attention has thrown, and no result follows. Set by a worker. */
        FAILED
    }

    public final int index;
    public final Admission admission;
    /** How its token is drawn on the GPU; empty when the host samples. */
    public final Optional<TokenSampler.Draw> draw;
    /** That of a same-layer token's sub-batch; empty for in-flight tokens. */
    private final Optional<SubBatchSpan> span;

    private final AtomicReference<State> state = new AtomicReference<>(State.GOES_ON);
    /** The layer of the last task that a worker has taken. The token stands there or at a later layer. */
    private volatile int layer;
    /** Whether the attention of a resumed token has thrown: it passes the remaining layers with wrong values. */
    private volatile boolean failedResumed;

    HostToken(int index, Admission admission, Optional<TokenSampler.Draw> draw, Optional<SubBatchSpan> span) {
        this.index = index;
        this.admission = admission;
        this.draw = draw;
        this.span = span;
    }

    boolean isSameLayer() {
        return span.isPresent();
    }

    /** Notes that a worker began with a part of a task, for the time of its sub-batch. */
    void began(long nanos) {
        if (span.isPresent()) {
            span.get().began(nanos);
        }
    }

    /** Notes that a task is done, before its result is announced. */
    void ended(long nanos) {
        if (span.isPresent()) {
            span.get().ended(nanos);
        }
    }

    long sequence() {
        return admission.sequence();
    }

    /** Tokens attended to, its own included. */
    int context() {
        return admission.position() + 1;
    }

    /** The earliest layer at which the token may stand. */
    public int earliestLayer() {
        return layer;
    }

    /** Notes that a worker has taken its task of a layer. */
    void taken(int taskLayer) {
        layer = taskLayer;
    }

    /** Pauses the token, unless a step waits for it or it has failed. */
    void pause() {
        state.compareAndSet(State.GOES_ON, State.PAUSED);
    }

    boolean isPaused() {
        return state.get() == State.PAUSED;
    }

    /** Has the sequence's next draw use the random number of this token, which is paused and never sampled. */
    void takeBackDraw() {
        draw.ifPresent(admission.sampler()::takeBack);
    }

    /** Has a step wait for the token; returns false when it is paused or has failed. */
    boolean resume() {
        return state.compareAndSet(State.GOES_ON, State.RESUMED);
    }

    /** Whether a step waits for the token. */
    boolean isResumed() {
        return state.get() == State.RESUMED;
    }

    /** Notes that its attention has thrown; returns whether a step waits for the result all the same. */
    boolean fail() {
        if (state.compareAndSet(State.GOES_ON, State.FAILED)) {
            return false;
        }
        failedResumed = state.get() == State.RESUMED;
        return failedResumed;
    }

    /** Whether the token has passed its layers with wrong values, because its attention threw. */
    boolean isWrong() {
        return failedResumed;
    }
}
