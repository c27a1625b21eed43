package dev.tandem.engine.request;

/** A request that cannot be served: which kind of trouble, which parameter, and a message that names the remedy. */
public final class RequestException extends RuntimeException {
    /** Mapped once, by the server, to an HTTP status. */
    public enum Category {
        BAD_REQUEST,
        NOT_FOUND,
        TOO_LARGE,
        OVERLOADED,
        UNAVAILABLE
    }

    private final Category category;
    private final String parameter;

    private RequestException(Category category, String parameter, String message) {
        super(message);
        this.category = category;
        this.parameter = parameter;
    }

    public static RequestException bad(String parameter, String message) {
        return new RequestException(Category.BAD_REQUEST, parameter, message);
    }

    public static RequestException of(Category category, String message) {
        return new RequestException(category, "", message);
    }

    public Category category() {
        return category;
    }

    /** The offending parameter's name, empty when the request as a whole is at fault. */
    public String parameter() {
        return parameter;
    }
}
