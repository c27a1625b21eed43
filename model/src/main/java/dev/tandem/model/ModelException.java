package dev.tandem.model;

/** A model cannot be loaded; the message names the file, the problem and the accepted values. */
public final class ModelException extends RuntimeException {
    public ModelException(String message) {
        super(message);
    }

    public ModelException(String message, Throwable cause) {
        super(message, cause);
    }
}
