package dev.tandem.cuda.hostattention;

import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import java.util.Optional;

/**
 * One token of one sequence whose KV is on the host tier and whose attention the CPU computes.
 *
 * <p>Owned by: the engine thread; workers read it, and report through {@link HostAttentionQueues}.
 */
public final class HostToken {
    public final int index;
    public final Admission admission;
    /** How its token is drawn on the GPU; empty when the host samples. */
    public final Optional<TokenSampler.Draw> draw;
    /** Set by the engine thread: the next worker that takes the token releases it. */
    volatile boolean paused;

    HostToken(int index, Admission admission, Optional<TokenSampler.Draw> draw) {
        this.index = index;
        this.admission = admission;
        this.draw = draw;
    }

    long sequence() {
        return admission.sequence();
    }

    /** Tokens attended to, its own included. */
    int context() {
        return admission.position() + 1;
    }
}
