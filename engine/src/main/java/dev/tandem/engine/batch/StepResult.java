package dev.tandem.engine.batch;

import dev.tandem.engine.sample.Choice;
import java.util.List;

/**
 * What a step did.
 *
 * @param sampled next tokens, of chunks with a sampler and of rows in flight that left the last layer
 * @param trace which row in flight continued at which layer, in order; replaying it repeats the step
 * @param parked rows in flight that the executor has let go of
 */
public record StepResult(
        long step, List<Sampled> sampled, List<RowProgress> trace, List<Long> parked, StepTimes times) {
    public record Sampled(long sequence, Choice choice) {}

    public record RowProgress(int layer, long sequence) {}

    public StepResult {
        sampled = List.copyOf(sampled);
        trace = List.copyOf(trace);
        parked = List.copyOf(parked);
    }
}
