package dev.tandem.model;

/** A model that cannot be loaded; the message names the file, what is wrong with it, and what would be right. */
public final class ModelException extends RuntimeException {
    public ModelException(String message) {
        super(message);
    }

    public ModelException(String message, Throwable cause) {
        super(message, cause);
    }
}
