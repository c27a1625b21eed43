package dev.tandem.fetch;

/** A file could not be fetched; the message names the source and the remedy. */
public class FetchException extends RuntimeException {
    public FetchException(String message) {
        super(message);
    }

    public FetchException(String message, Throwable cause) {
        super(message, cause);
    }
}
