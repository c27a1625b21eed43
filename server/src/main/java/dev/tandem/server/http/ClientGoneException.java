package dev.tandem.server.http;

/** The client closed the connection before its answer was complete. */
public final class ClientGoneException extends RuntimeException {
    public ClientGoneException() {
        super("the client disconnected", null, false, false);
    }
}
