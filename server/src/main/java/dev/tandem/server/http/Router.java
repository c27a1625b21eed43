package dev.tandem.server.http;

/** Serves one request; runs on a virtual thread of its own and may block. */
@FunctionalInterface
public interface Router {
    void serve(Exchange exchange) throws InterruptedException;
}
