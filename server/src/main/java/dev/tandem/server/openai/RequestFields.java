package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * A request's JSON object, read field by field; a value of the wrong kind is a 400 that names the field. Fields nobody
 * asked for are accepted and named in the log once.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class RequestFields {
    private static final Logger LOG = System.getLogger(RequestFields.class.getName());
    private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();
    private static final int MOST_WARNINGS = 1000;
    private static final ObjectMapper JSON = new ObjectMapper(
            JsonFactory.builder().enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION).build());

    private final JsonNode root;
    private final Set<String> known = new HashSet<>();

    private RequestFields(JsonNode root) {
        this.root = root;
    }

    static RequestFields parse(byte[] body) {
        JsonNode root;
        try {
            root = JSON.readTree(body);
        } catch (JacksonException e) {
            throw RequestException.bad("", "the body is not valid JSON: " + e.getOriginalMessage());
        }
        if (root == null || !root.isObject()) {
            throw RequestException.bad("", "the body must be a JSON object");
        }
        return new RequestFields(root);
    }

    /** The raw value; empty when absent or null. */
    Optional<JsonNode> field(String name) {
        known.add(name);
        JsonNode node = root.get(name);
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node);
    }

    /** Fields that are understood to have no effect here. */
    void ignore(String... names) {
        known.addAll(Set.of(names));
    }

    double number(String name, double otherwise) {
        return field(name).map(node -> finite(name, node)).orElse(otherwise);
    }

    private static double finite(String name, JsonNode node) {
        if (!node.isNumber() || !Double.isFinite(node.asDouble())) {
            throw wrong(name, node, "a finite number");
        }
        return node.asDouble();
    }

    int integer(String name, int otherwise) {
        return field(name).map(node -> whole(name, node)).orElse(otherwise);
    }

    static int whole(String name, JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToInt()) {
            throw wrong(name, node, "an integer of 32 bits");
        }
        return node.asInt();
    }

    Optional<Long> wholeLong(String name) {
        return field(name).map(node -> {
            if (!node.isIntegralNumber() || !node.canConvertToLong()) {
                throw wrong(name, node, "an integer of 64 bits");
            }
            return node.asLong();
        });
    }

    boolean flag(String name, boolean otherwise) {
        return field(name)
                .map(node -> {
                    if (!node.isBoolean()) {
                        throw wrong(name, node, "true or false");
                    }
                    return node.asBoolean();
                })
                .orElse(otherwise);
    }

    Optional<String> text(String name) {
        return field(name).map(node -> string(name, node));
    }

    static String string(String name, JsonNode node) {
        if (!node.isString()) {
            throw wrong(name, node, "a string");
        }
        return node.asString();
    }

    static RequestException wrong(String name, JsonNode node, String wanted) {
        String shown = node.toString();
        String value = shown.length() > 60 ? shown.substring(0, 60) + "…" : shown;
        return RequestException.bad(name, name + " is " + value + "; it must be " + wanted);
    }

    /** Refuses a feature that would otherwise be ignored silently. */
    void refuseUnless(String name, boolean acceptable, String message) {
        if (field(name).isPresent() && !acceptable) {
            throw RequestException.bad(name, message);
        }
    }

    /** Says which fields had no effect. */
    void warnAboutUnknown() {
        root.propertyNames().stream()
                .filter(name -> !known.contains(name))
                .filter(name -> WARNED.size() < MOST_WARNINGS && WARNED.add(name))
                .forEach(name -> LOG.log(Level.WARNING, "the request field \"{0}\" is not known and has no effect", name));
    }
}
