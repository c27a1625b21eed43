package dev.tandem.server.http;

/** What an error of the connection itself looks like to the client, as JSON. */
@FunctionalInterface
public interface ErrorBody {
    byte[] of(int status, String message);
}
