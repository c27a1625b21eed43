package dev.tandem.engine.queue;

import dev.tandem.engine.request.Request;

/** A message to the engine thread. */
public sealed interface EngineCommand {
    record Submit(Request request, long arrivedNanos) implements EngineCommand {}

    record Cancel(String requestId) implements EngineCommand {}
}
