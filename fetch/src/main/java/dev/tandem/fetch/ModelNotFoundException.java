package dev.tandem.fetch;

/** The hub has no such model, or shows it only to users with access. */
public final class ModelNotFoundException extends FetchException {
    public ModelNotFoundException(String message) {
        super(message);
    }
}
