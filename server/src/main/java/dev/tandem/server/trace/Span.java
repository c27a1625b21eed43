package dev.tandem.server.trace;

import dev.tandem.engine.request.TraceParent;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A part of a request, from its begin to its end.
 *
 * @param parent the trace, and the span that it is part of; the parent's id is empty for the first span of a trace
 * @param id 16 hexadecimal digits
 * @param begin nanoseconds since 1970
 * @param end nanoseconds since 1970
 * @param attributes strings, booleans, whole numbers as longs, doubles, or lists of strings
 * @param events what happened meanwhile
 * @param error why it failed; empty when it did not
 */
record Span(
        TraceParent parent,
        String id,
        String name,
        Kind kind,
        long begin,
        long end,
        Map<String, Object> attributes,
        List<Event> events,
        Optional<String> error) {
    /** How it relates to others; the numbers are OTLP's. */
    enum Kind {
        INTERNAL(1),
        SERVER(2);

        final int number;

        Kind(int number) {
            this.number = number;
        }
    }

    /** Something that happened at one time, in nanoseconds since 1970. */
    record Event(String name, long time, Map<String, Object> attributes) {}
}
