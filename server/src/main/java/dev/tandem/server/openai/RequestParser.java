package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamFactory;
import tools.jackson.core.exc.StreamConstraintsException;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Parses request bodies under limits. A body that exceeds one is refused at that point, before it takes memory.
 *
 * <p>Owned by: thread-safe.
 */
final class RequestParser {
    /** JSON schemas of tools nest about ten deep. */
    private static final int MAX_NESTING = 100;

    private static final int MAX_NAME_LENGTH = 1000;
    private static final int MAX_NUMBER_LENGTH = 100;
    /** Max number of braces, brackets, names and values; it bounds a parsed body at about 100 MB. */
    private static final int MAX_JSON_TOKENS = 1_000_000;
    /** Characters that any string may have, however small the context; tool descriptions can be long. */
    private static final int MIN_STRING_LIMIT = 1 << 20;
    /** The start of the parser's message for a string that is too long. */
    private static final String STRING_TOO_LONG = "String value length";

    private final ObjectMapper json;
    private final PromptReader prompts;
    private final int maxStringLength;

    RequestParser(PromptReader prompts) {
        this.prompts = prompts;
        this.maxStringLength = Math.clamp(prompts.maxCharacters(), MIN_STRING_LIMIT, Integer.MAX_VALUE);
        this.json = new ObjectMapper(JsonFactory.builder()
                .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                // the name table is shared by all requests: an attacker could fill it with colliding names
                .disable(TokenStreamFactory.Feature.CANONICALIZE_PROPERTY_NAMES)
                .streamReadConstraints(StreamReadConstraints.builder()
                        .maxNestingDepth(MAX_NESTING)
                        .maxNameLength(MAX_NAME_LENGTH)
                        .maxNumberLength(MAX_NUMBER_LENGTH)
                        .maxStringLength(maxStringLength)
                        .maxTokenCount(MAX_JSON_TOKENS)
                        .build())
                .build());
    }

    /** @throws RequestException when the body is not a JSON object, or has a field that the endpoint refuses */
    RequestFields parse(InputStream body, ApiFields.Endpoint endpoint) {
        return check(read(body), endpoint);
    }

    /** @throws RequestException when the body is not a JSON object, or has a field that the endpoint refuses */
    RequestFields check(JsonNode root, ApiFields.Endpoint endpoint) {
        if (!root.isObject()) {
            throw RequestException.bad(
                    "",
                    root.isMissingNode()
                            ? "the body is empty; it must be a JSON object"
                            : "the body must be a JSON object");
        }
        root.propertyStream().forEach(field -> ApiFields.check(endpoint, field.getKey(), field.getValue()));
        return new RequestFields(endpoint, root);
    }

    private JsonNode read(InputStream body) {
        try {
            // this decoder, unlike the parser's own, refuses invalid UTF-8
            return json.readTree(new InputStreamReader(body, StandardCharsets.UTF_8.newDecoder()));
        } catch (StreamConstraintsException e) {
            if (e.getOriginalMessage().startsWith(STRING_TOO_LONG)) {
                throw RequestException.bad(
                        "",
                        String.valueOf(
                                prompts.tooLong("the body", maxStringLength).getMessage()));
            }
            throw RequestException.bad(
                    "",
                    "the body exceeds a limit: at most " + MAX_NESTING + " levels of nesting, names of "
                            + MAX_NAME_LENGTH + " characters, numbers of " + MAX_NUMBER_LENGTH + " digits, and "
                            + MAX_JSON_TOKENS + " names, values and brackets in all");
        } catch (JacksonException e) {
            if (e.getCause() instanceof CharacterCodingException) {
                throw RequestException.bad("", "the body is not UTF-8");
            }
            throw RequestException.bad(
                    "",
                    "the body is not valid JSON, or repeats a name in an object, at line "
                            + e.getLocation().getLineNr() + ", column "
                            + e.getLocation().getColumnNr());
        }
    }

    /**
     * Parses JSON in a string of a request, under the same limits.
     *
     * @throws JacksonException when the text is not JSON
     */
    JsonNode parse(String text) {
        return json.readTree(text);
    }
}
