package dev.tandem.engine.step;

import dev.tandem.engine.sampling.Choice;
import java.util.List;

/**
 * What a step did.
 *
 * @param sampled next tokens, of chunks with a sampler and of in-flight tokens that left the last layer
 * @param trace which in-flight token continued at which layer, in order; replaying it repeats the step
 * @param parked in-flight tokens that the executor has let go of
 * @param lost sequences that cannot go on; their requests end with the message, all others go on
 */
public record StepResult(
        long step,
        List<Sampled> sampled,
        List<RowProgress> trace,
        List<Long> parked,
        List<Lost> lost,
        StepTimes times) {
    public record Sampled(long sequence, Choice choice) {}

    public record RowProgress(int layer, long sequence) {}

    /** Why a sequence cannot go on. */
    public enum Cause {
        /** A worker of the host failed or stalled; the engine goes on without the host. */
        HOST_ATTENTION,
        /** The sequence's own logits or sampling failed, a NaN for example; nothing else is affected. */
        SAMPLING
    }

    /**
     * A sequence that cannot go on.
     *
     * @param message for the client: what happened, and what can be done
     * @param stillInUse whether somebody may yet write the sequence's blocks, which must then never be granted again
     */
    public record Lost(long sequence, Cause cause, String message, boolean stillInUse) {}

    /** A step in which nothing was lost. */
    public StepResult(long step, List<Sampled> sampled, List<RowProgress> trace, List<Long> parked, StepTimes times) {
        this(step, sampled, trace, parked, List.of(), times);
    }

    public StepResult {
        sampled = List.copyOf(sampled);
        trace = List.copyOf(trace);
        parked = List.copyOf(parked);
        lost = List.copyOf(lost);
    }
}
