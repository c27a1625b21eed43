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

    EngineListener NONE = new EngineListener() {};
}
