package dev.tandem.engine.request;

/** Receives a request's events in order, on the engine thread. It must pass them on and return; it must never block. */
@FunctionalInterface
public interface TokenSink {
    /** Receives the next event. */
    void on(TokenEvent event);
}
