package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.databind.JsonNode;

/**
 * Reads the fields of a request's JSON object; a value of the wrong type is answered with a 400 that names the field.
 *
 * <p>Owned by: the thread that prepares the request.
 */
final class RequestFields {
    private final ApiFields.Endpoint endpoint;
    private final JsonNode root;

    RequestFields(ApiFields.Endpoint endpoint, JsonNode root) {
        this.endpoint = endpoint;
        this.root = root;
    }

    /** The raw value; empty when absent or null. */
    Optional<JsonNode> field(String name) {
        return field(name, FieldType.ANY);
    }

    private Optional<JsonNode> field(String name, FieldType type) {
        ApiFields.requireHonoured(endpoint, name, type);
        JsonNode node = root.get(name);
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node);
    }

    /** Whether the endpoint has the field at all. */
    boolean honours(String name) {
        return ApiFields.honours(endpoint, name);
    }

    double number(String name, double defaultValue) {
        return field(name, FieldType.NUMBER).map(node -> finite(name, node)).orElse(defaultValue);
    }

    private static double finite(String name, JsonNode node) {
        if (!node.isNumber() || !Double.isFinite(node.asDouble())) {
            throw wrong(name, node, "a finite number");
        }
        return node.asDouble();
    }

    int integer(String name, int defaultValue) {
        return field(name, FieldType.INTEGER).map(node -> whole(name, node)).orElse(defaultValue);
    }

    OptionalInt integer(String name) {
        return field(name, FieldType.INTEGER)
                .map(node -> OptionalInt.of(whole(name, node)))
                .orElse(OptionalInt.empty());
    }

    static int whole(String name, JsonNode node) {
        if (!node.isIntegralNumber() || !node.canConvertToInt()) {
            throw wrong(name, node, "an integer of 32 bits");
        }
        return node.asInt();
    }

    Optional<Long> wholeLong(String name) {
        return field(name, FieldType.INTEGER).map(node -> {
            if (!node.isIntegralNumber() || !node.canConvertToLong()) {
                throw wrong(name, node, "an integer of 64 bits");
            }
            return node.asLong();
        });
    }

    boolean flag(String name, boolean defaultValue) {
        return field(name, FieldType.BOOLEAN).map(node -> truth(name, node)).orElse(defaultValue);
    }

    static boolean truth(String name, JsonNode node) {
        if (!node.isBoolean()) {
            throw wrong(name, node, "true or false");
        }
        return node.asBoolean();
    }

    Optional<String> text(String name) {
        return field(name, FieldType.STRING).map(node -> string(name, node));
    }

    static String string(String name, JsonNode node) {
        if (!node.isString()) {
            throw wrong(name, node, "a string");
        }
        return node.asString();
    }

    static RequestException wrong(String name, JsonNode node, String wanted) {
        return RequestException.bad(name, name + " is " + shown(node) + "; it must be " + wanted);
    }

    /** The value as an error message shows it: short, on one line, and without control characters. */
    static String shown(JsonNode node) {
        return switch (node.getNodeType()) {
            case ARRAY -> node.isEmpty() ? "an empty list" : "a list";
            case OBJECT -> node.isEmpty() ? "an empty object" : "an object";
            case STRING -> '"' + Printable.of(node.asString()) + '"';
            case BOOLEAN, NUMBER, NULL, MISSING, BINARY, POJO -> Printable.of(node.toString());
        };
    }
}
