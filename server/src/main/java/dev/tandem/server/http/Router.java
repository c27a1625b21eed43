package dev.tandem.server.http;

/** Decides who answers a request, and answers it. */
public interface Router {
    /** How a request is served. */
    sealed interface Decision {
        /** The answer is known already; the body is not needed. */
        record Answer(Response response) implements Decision {}

        /** {@link #serve} runs on the event loop: only for answers which need no wait and little work. */
        record OnEventLoop() implements Decision {}

        /** {@link #serve} runs on a virtual thread of its own and may block. */
        record OnVirtualThread() implements Decision {}
    }

    /** Decides by the head alone, before the body is read. Runs on the event loop and must not block. */
    Decision decide(RequestHead head);

    void serve(Exchange exchange) throws InterruptedException;
}
