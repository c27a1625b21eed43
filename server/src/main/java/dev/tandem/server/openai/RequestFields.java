package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamFactory;
import tools.jackson.core.exc.StreamConstraintsException;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * A request's JSON object, read field by field; a value of the wrong kind is a 400 that names the field. What
 * {@link ApiFields} does not list is a 400 too.
 *
 * <p>Owned by: the thread that prepares the request.
 */
final class RequestFields {
    /** JSON schemas of tools nest about ten deep. */
    private static final int MAX_NESTING = 100;

    private static final int MAX_NAME_LENGTH = 1000;
    private static final int MAX_NUMBER_LENGTH = 100;
    /** Of braces, brackets, names and values: a parsed body then takes at most about 100 MB. */
    private static final int MAX_JSON_TOKENS = 1_000_000;

    /** Names are not kept in a table shared by all requests: names chosen to collide would fill it. */
    private static final ObjectMapper JSON = new ObjectMapper(JsonFactory.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .disable(TokenStreamFactory.Feature.CANONICALIZE_PROPERTY_NAMES)
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxNestingDepth(MAX_NESTING)
                    .maxNameLength(MAX_NAME_LENGTH)
                    .maxNumberLength(MAX_NUMBER_LENGTH)
                    .maxStringLength(Integer.MAX_VALUE) // the body has a limit
                    .maxTokenCount(MAX_JSON_TOKENS)
                    .build())
            .build());

    private final ApiFields.Endpoint endpoint;
    private final JsonNode root;

    private RequestFields(ApiFields.Endpoint endpoint, JsonNode root) {
        this.endpoint = endpoint;
        this.root = root;
    }

    /** @throws RequestException when it is not a JSON object of fields which the endpoint honours */
    static RequestFields parse(byte[] body, ApiFields.Endpoint endpoint) {
        JsonNode root = json(body);
        if (!root.isObject()) {
            throw RequestException.bad("", "the body must be a JSON object");
        }
        root.propertyStream().forEach(field -> ApiFields.check(endpoint, field.getKey(), field.getValue()));
        return new RequestFields(endpoint, root);
    }

    private static JsonNode json(byte[] body) {
        if (body.length == 0) {
            throw RequestException.bad("", "the body is empty; it must be a JSON object");
        }
        try {
            // the parser would replace what is not UTF-8
            return JSON.readTree(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString());
        } catch (CharacterCodingException e) {
            throw RequestException.bad("", "the body is not UTF-8");
        } catch (StreamConstraintsException e) {
            throw RequestException.bad(
                    "",
                    "the body exceeds a limit: at most " + MAX_NESTING + " levels of nesting, names of " + MAX_NAME_LENGTH
                            + " characters, numbers of " + MAX_NUMBER_LENGTH + " digits, and " + MAX_JSON_TOKENS
                            + " names, values and brackets in all");
        } catch (JacksonException e) {
            throw RequestException.bad(
                    "",
                    "the body is not valid JSON, or an object of it has a name twice, at line "
                            + e.getLocation().getLineNr() + ", column " + e.getLocation().getColumnNr());
        }
    }

    /** JSON within a field, under the same limits. */
    static JsonNode json(String text) {
        return JSON.readTree(text);
    }

    /** The raw value; empty when absent or null. */
    Optional<JsonNode> field(String name) {
        ApiFields.requireHonoured(endpoint, name);
        JsonNode node = root.get(name);
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node);
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

    OptionalInt integer(String name) {
        return field(name).map(node -> OptionalInt.of(whole(name, node))).orElse(OptionalInt.empty());
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
        return field(name).map(node -> truth(name, node)).orElse(otherwise);
    }

    static boolean truth(String name, JsonNode node) {
        if (!node.isBoolean()) {
            throw wrong(name, node, "true or false");
        }
        return node.asBoolean();
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
        return RequestException.bad(name, name + " is " + shown(node) + "; it must be " + wanted);
    }

    /** A value in an error message: short, on one line, and nothing a terminal obeys. */
    static String shown(JsonNode node) {
        return switch (node.getNodeType()) {
            case ARRAY -> node.isEmpty() ? "an empty list" : "a list";
            case OBJECT -> node.isEmpty() ? "an empty object" : "an object";
            case STRING -> '"' + Printable.of(node.asString()) + '"';
            case BOOLEAN, NUMBER, NULL, MISSING, BINARY, POJO -> Printable.of(node.toString());
        };
    }
}
