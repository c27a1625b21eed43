package dev.tandem.engine.queue;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.sampling.Adjustments;

/** A message to the engine thread. */
public sealed interface EngineCommand {
    /** @param adjustments built by the thread that submits: a penalised prompt may have 100,000 tokens to list */
    record Submit(Request request, Adjustments adjustments, long arrivedNanos) implements EngineCommand {}

    record Cancel(String requestId) implements EngineCommand {}
}
