package dev.tandem.text.jinja;

/** A template that cannot be parsed or rendered. */
public final class JinjaException extends RuntimeException {
    private final boolean raisedByTemplate;

    public JinjaException(String message) {
        this(message, false);
    }

    JinjaException(String message, boolean raisedByTemplate) {
        super(message);
        this.raisedByTemplate = raisedByTemplate;
    }

    /** True when the template itself called {@code raise_exception}: its input is at fault, not its code. */
    public boolean isRaisedByTemplate() {
        return raisedByTemplate;
    }
}
