package dev.tandem.engine.request;

/** A request that cannot be served: the category, the parameter, and a message that names the remedy. */
public final class RequestException extends RuntimeException {
    /** Kinds of errors; the server maps each to an HTTP status. */
    public enum Category {
        /** A parameter is wrong. */
        BAD_REQUEST,
        /** The named thing does not exist. */
        NOT_FOUND,
        /** The request has too many bytes or tokens. */
        TOO_LARGE,
        /** The server lacks a part that the request needs. */
        NOT_IMPLEMENTED,
        /** Too many requests wait; a later attempt may succeed. */
        OVERLOADED,
        /** The engine has ended or takes no new requests, or a part of the server is not there yet. */
        UNAVAILABLE
    }

    private final Category category;
    private final String parameter;

    private RequestException(Category category, String parameter, String message) {
        super(message);
        this.category = category;
        this.parameter = parameter;
    }

    /** A wrong parameter, spelt as in OpenAI's API. */
    public static RequestException bad(String parameter, String message) {
        return new RequestException(Category.BAD_REQUEST, parameter, message);
    }

    /** An error of the request as a whole. */
    public static RequestException of(Category category, String message) {
        return new RequestException(category, "", message);
    }

    /** The kind of error. */
    public Category category() {
        return category;
    }

    /** Name of the wrong parameter; empty when the request as a whole cannot be served. */
    public String parameter() {
        return parameter;
    }
}
