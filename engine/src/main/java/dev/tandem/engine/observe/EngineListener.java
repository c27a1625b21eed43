package dev.tandem.engine.observe;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;

/** Told on the engine thread, so it counts and returns. Durations in nanoseconds. */
public interface EngineListener {
    default void step(StepRecord record) {}

    /** The first output token of a request, this long after its arrival. */
    default void firstToken(Request request, long sinceArrival) {}

    /** A later output token, this long after the one before. */
    default void nextToken(Request request, long sincePrevious) {}

    default void finished(Request request, FinishReason reason, Usage usage) {}

    /** A request the engine had to give up because it failed itself. */
    default void failed(Request request) {}

    /**
     * A token that was decoded from host KV was computed again by the GPU.
     *
     * @param difference of its natural-log probabilities
     */
    default void comparedWithGpu(double difference) {}

    /** Such a comparison was not made: too many were under way, or the engine was ending. */
    default void comparisonDropped() {}

    EngineListener NONE = new EngineListener() {};

    /** Tells this one, then another. */
    default EngineListener and(EngineListener next) {
        EngineListener first = this;
        return new EngineListener() {
            @Override
            public void step(StepRecord record) {
                first.step(record);
                next.step(record);
            }

            @Override
            public void firstToken(Request request, long sinceArrival) {
                first.firstToken(request, sinceArrival);
                next.firstToken(request, sinceArrival);
            }

            @Override
            public void nextToken(Request request, long sincePrevious) {
                first.nextToken(request, sincePrevious);
                next.nextToken(request, sincePrevious);
            }

            @Override
            public void finished(Request request, FinishReason reason, Usage usage) {
                first.finished(request, reason, usage);
                next.finished(request, reason, usage);
            }

            @Override
            public void failed(Request request) {
                first.failed(request);
                next.failed(request);
            }

            @Override
            public void comparedWithGpu(double difference) {
                first.comparedWithGpu(difference);
                next.comparedWithGpu(difference);
            }

            @Override
            public void comparisonDropped() {
                first.comparisonDropped();
                next.comparisonDropped();
            }
        };
    }
}
