package dev.tandem.engine.cost;

/** Thrown for a profile that cannot be used; the message names the value and the remedy. */
public final class ProfileException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    /** Creates an exception whose message is shown to the user. */
    public ProfileException(String message) {
        super(message);
    }
}
