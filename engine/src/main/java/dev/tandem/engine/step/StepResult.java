package dev.tandem.engine.step;

import dev.tandem.engine.sampling.Choice;
import java.util.List;

/**
 * What one step produced: sampled tokens, released in-flight tokens and lost sequences.
 *
 * @param step number of the plan
 * @param sampled next tokens: of chunks with a sampler, and of in-flight tokens that passed the last layer
 * @param trace which in-flight token continued at which layer, in order; replaying it repeats the step
 * @param paused paused in-flight tokens, whose blocks the executor no longer uses
 * @param lost sequences that cannot go on; their requests end with the message, other requests go on
 * @param times where the step's time went
 * @param cpuTasks of the time that {@code times} has for the CPU's attention
 */
public record StepResult(
        long step,
        List<Sampled> sampled,
        List<LayerProgress> trace,
        List<Long> paused,
        List<Lost> lost,
        StepTimes times,
        CpuTasks cpuTasks) {
    /**
     * One sampled token.
     *
     * @param sequence key of the sequence
     * @param choice the token
     * @param site who computed the attention of the position that was sampled
     */
    public record Sampled(long sequence, Choice choice, AttentionSite site) {
        /** True when the CPU computed the attention, from host KV. */
        public boolean fromHost() {
            return site == AttentionSite.CPU_FROM_HOST;
        }
    }

    /** An in-flight token that continued at a layer. */
    public record LayerProgress(int layer, long sequence) {}

    /** Why a sequence cannot go on. */
    public enum Cause {
        /** A host worker failed or stalled; the engine continues without host attention. */
        HOST_ATTENTION,
        /** The sequence's own logits or sampler failed, a NaN for example; no other sequence is affected. */
        SAMPLING
    }

    /**
     * A sequence that cannot go on.
     *
     * @param sequence key of the sequence
     * @param cause what failed
     * @param message for the client: what happened, and what can be done
     * @param stillInUse whether a worker or the device may still write the sequence's blocks, which must then never be
     *     granted again
     */
    public record Lost(long sequence, Cause cause, String message, boolean stillInUse) {}

    /** A step whose executor does not count the CPU's tasks. */
    public StepResult(
            long step,
            List<Sampled> sampled,
            List<LayerProgress> trace,
            List<Long> paused,
            List<Lost> lost,
            StepTimes times) {
        this(step, sampled, trace, paused, lost, times, CpuTasks.NONE);
    }

    /** A step that lost no sequence. */
    public StepResult(long step, List<Sampled> sampled, List<LayerProgress> trace, List<Long> paused, StepTimes times) {
        this(step, sampled, trace, paused, List.of(), times);
    }

    /** Copies the lists. */
    public StepResult {
        sampled = List.copyOf(sampled);
        trace = List.copyOf(trace);
        paused = List.copyOf(paused);
        lost = List.copyOf(lost);
    }
}
