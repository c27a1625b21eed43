package dev.tandem.server.trace;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The trace that a client's request belongs to, as the headers {@code traceparent} and {@code tracestate} say (W3C
 * Trace Context).
 *
 * @param traceId 32 hexadecimal digits
 * @param spanId of the client's span, 16 hexadecimal digits
 * @param sampled whether the client records the trace
 * @param state of other vendors; may be empty
 */
record TraceContext(String traceId, String spanId, boolean sampled, String state) {
    /** A later version may add fields behind these four. */
    private static final Pattern PARENT =
            Pattern.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?");

    private static final int SAMPLED = 1;
    /** Characters of a tracestate that must be passed on; longer ones may be dropped, and are. */
    private static final int MAX_STATE = 512;

    /** The context of two headers; empty where {@code traceparent} is absent or invalid, which starts a new trace. */
    static Optional<TraceContext> of(String parent, String state) {
        Matcher match = PARENT.matcher(parent.strip());
        if (!match.matches() || !isValid(match)) {
            return Optional.empty();
        }
        boolean sampled = (Integer.parseInt(match.group(4), 16) & SAMPLED) != 0;
        boolean kept = state.length() <= MAX_STATE && state.chars().allMatch(c -> c >= ' ' && c < 127);
        return Optional.of(new TraceContext(match.group(2), match.group(3), sampled, kept ? state.strip() : ""));
    }

    private static boolean isValid(Matcher match) {
        String version = match.group(1);
        return !version.equals("ff")
                && !(version.equals("00") && match.group(5) != null)
                && !isZero(match.group(2))
                && !isZero(match.group(3));
    }

    private static boolean isZero(String digits) {
        return digits.chars().allMatch(digit -> digit == '0');
    }
}
