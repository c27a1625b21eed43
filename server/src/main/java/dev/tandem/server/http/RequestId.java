package dev.tandem.server.http;

import java.util.UUID;

/**
 * The id of one HTTP request.
 *
 * @param shown as the answer's {@code X-Request-Id} and the access log have it: the client's own id, or a new one
 * @param unique differs from the id of every other request, also when clients send the same id twice
 */
record RequestId(String shown, String unique) {
    static final String HEADER = "X-Request-Id";

    private static final int MAX_LENGTH = 64;
    /** Digits that make a client's id unique; 32 bits are enough among live requests. */
    private static final int SUFFIX_DIGITS = 8;

    /** The client's own id with a unique suffix, if it is short and printable; else a new one. */
    static RequestId of(RequestHead head) {
        String fresh = UUID.randomUUID().toString().replace("-", "");
        String given = head.header("x-request-id");
        boolean fit = !given.isEmpty()
                && given.length() <= MAX_LENGTH
                && given.chars().allMatch(c -> c > ' ' && c < 127);
        return fit
                ? new RequestId(given, given + "-" + fresh.substring(0, SUFFIX_DIGITS))
                : new RequestId(fresh, fresh);
    }
}
