package dev.tandem.server.http;

/** Formats an error of the HTTP connection as the JSON body that the client gets. */
@FunctionalInterface
public interface ErrorBody {
    byte[] of(int status, String message);
}
