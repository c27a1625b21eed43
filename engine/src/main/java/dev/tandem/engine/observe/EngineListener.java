package dev.tandem.engine.observe;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;

/**
 * Receives the engine's events, for metrics and logs.
 *
 * <p>The engine thread calls it, so each method must count and return. Durations are in nanoseconds.
 */
public interface EngineListener {
    /** A step has ended. */
    default void step(StepRecord record) {}

    /** A request has its first output token, this long after its arrival. */
    default void firstToken(Request request, long sinceArrival) {}

    /** A request has a further output token, this long after the one before. */
    default void nextToken(Request request, long sincePrevious) {}

    /** A request has ended that was served. */
    default void finished(Request request, FinishReason reason, Usage usage) {}

    /** A request has ended with an error; the message is what its client got. */
    default void failed(Request request, String message) {}

    /**
     * The GPU has recomputed a token whose attention the CPU had computed from host KV.
     *
     * @param difference between the two natural-log probabilities of the token
     */
    default void comparedWithGpu(double difference) {}

    /** A comparison was dropped: too many ran already, or the engine was ending. */
    default void comparisonDropped() {}

    /** Ignores all events. */
    EngineListener NONE = new EngineListener() {};

    /** A listener that passes each event to this one, then to another. */
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
            public void failed(Request request, String message) {
                first.failed(request, message);
                next.failed(request, message);
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
