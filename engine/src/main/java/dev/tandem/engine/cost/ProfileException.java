package dev.tandem.engine.cost;

/** A profile that cannot be used; the message says which value and what to do. */
public final class ProfileException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    /** Creates an exception for the user. */
    public ProfileException(String message) {
        super(message);
    }
}
