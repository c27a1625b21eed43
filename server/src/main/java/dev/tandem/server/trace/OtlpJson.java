package dev.tandem.server.trace;

import java.util.List;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Writes spans as an export request of OTLP/HTTP in JSON. 64-bit numbers are strings there, and ids hexadecimal. */
final class OtlpJson {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int STATUS_ERROR = 2;

    private OtlpJson() {}

    /**
     * The body of a request.
     *
     * @param resource attributes of the process
     * @param version of Tandem
     */
    static byte[] request(List<Span> spans, Map<String, String> resource, String version) {
        ObjectNode root = JSON.createObjectNode();
        ObjectNode process = root.putArray("resourceSpans").addObject();
        attributes(process.putObject("resource"), resource);
        ObjectNode scope = process.putArray("scopeSpans").addObject();
        scope.putObject("scope").put("name", "tandem").put("version", version);
        ArrayNode list = scope.putArray("spans");
        spans.forEach(span -> write(span, list.addObject()));
        return JSON.writeValueAsBytes(root);
    }

    /** Spans that the collector has refused, by its answer to a request that it took; 0 where it says nothing. */
    static long rejected(String answer) {
        try {
            return JSON.readTree(answer).at("/partialSuccess/rejectedSpans").asLong(0);
        } catch (JacksonException e) {
            return 0; // the answer to JSON is JSON, but its status has already said that the spans were taken
        }
    }

    private static void write(Span span, ObjectNode node) {
        node.put("traceId", span.parent().traceId()).put("spanId", span.id());
        if (!span.parent().spanId().isEmpty()) {
            node.put("parentSpanId", span.parent().spanId());
        }
        if (!span.parent().state().isEmpty()) {
            node.put("traceState", span.parent().state());
        }
        node.put("name", span.name()).put("kind", span.kind().number);
        node.put("startTimeUnixNano", Long.toString(span.begin())).put("endTimeUnixNano", Long.toString(span.end()));
        attributes(node, span.attributes());
        if (!span.events().isEmpty()) {
            ArrayNode events = node.putArray("events");
            for (Span.Event event : span.events()) {
                ObjectNode one = events.addObject();
                one.put("timeUnixNano", Long.toString(event.time())).put("name", event.name());
                attributes(one, event.attributes());
            }
        }
        span.error()
                .ifPresent(message ->
                        node.putObject("status").put("code", STATUS_ERROR).put("message", message));
    }

    private static void attributes(ObjectNode node, Map<String, ?> attributes) {
        ArrayNode list = node.putArray("attributes");
        attributes.forEach(
                (key, value) -> value(list.addObject().put("key", key).putObject("value"), value));
    }

    private static void value(ObjectNode node, Object value) {
        switch (value) {
            case String text -> node.put("stringValue", text);
            case Boolean flag -> node.put("boolValue", flag);
            case Long number -> node.put("intValue", number.toString());
            case Double number -> node.put("doubleValue", number);
            case List<?> items -> {
                ArrayNode values = node.putObject("arrayValue").putArray("values");
                items.forEach(item -> value(values.addObject(), item));
            }
            default -> throw new IllegalArgumentException("a span attribute cannot be a " + value.getClass());
        }
    }
}
