package dev.tandem.server.http;

/** Decides how each request is served, and serves it. */
public interface Router {
    /** How a request is served. */
    sealed interface Decision {
        /** The answer is known already; the body is not needed. */
        record Answer(Response response) implements Decision {}

        /** {@link #serve} runs on the event loop, so it must be short and must not block. */
        record OnEventLoop() implements Decision {}

        /** {@link #serve} runs on a virtual thread of its own and may block. */
        record OnVirtualThread() implements Decision {}
    }

    /** Decides by the request's head, before its body is read. Runs on the event loop and must not block. */
    Decision decide(RequestHead head);

    void serve(Exchange exchange) throws InterruptedException;
}
