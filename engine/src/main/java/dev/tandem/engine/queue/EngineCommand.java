package dev.tandem.engine.queue;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.sampling.Adjustments;

/** A message to the engine thread. */
public sealed interface EngineCommand {
    /**
     * Asks the engine to accept a request.
     *
     * @param adjustments made by the submitting thread, because a penalised prompt may have 100,000 tokens to list
     * @param arrivedNanos when it was submitted, by the engine's clock
     */
    record Submit(Request request, Adjustments adjustments, long arrivedNanos) implements EngineCommand {}

    /** Asks the engine to end a request. */
    record Cancel(String requestId) implements EngineCommand {}

    /** Asks the engine to empty its prefix cache. */
    record ResetPrefixCache() implements EngineCommand {}
}
