package dev.tandem.cuda.hostattention;

import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import java.util.Optional;

/**
 * A in-flight token: one token of one sequence on its way through the layers, a layer a step or faster.
 *
 * <p>Owned by: the engine thread; workers read it, and tell what they did with it through {@link HostAttentionQueues}.
 */
public final class HostToken {
    public final int index;
    public final Admission admission;
    /** How its token is drawn on the GPU; empty when the host samples. */
    public final Optional<TokenSampler.Draw> draw;
    /** Set by the engine: the row shall go no further. */
    volatile boolean parked;

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
