package dev.tandem.engine.request;

/** Receives a request's events, in order, on the engine thread: it must hand them on and return, never block. */
@FunctionalInterface
public interface TokenSink {
    void on(TokenEvent event);
}
