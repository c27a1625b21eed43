package dev.tandem.text.jinja;

/** A template cannot be parsed or rendered. */
public final class JinjaException extends RuntimeException {
    private final boolean raisedByTemplate;

    public JinjaException(String message) {
        this(message, false);
    }

    JinjaException(String message, boolean raisedByTemplate) {
        super(message);
        this.raisedByTemplate = raisedByTemplate;
    }

    /** True when the template called {@code raise_exception}: the input is wrong, not the template. */
    public boolean isRaisedByTemplate() {
        return raisedByTemplate;
    }
}
