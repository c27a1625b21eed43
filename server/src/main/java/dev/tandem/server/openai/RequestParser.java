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
 * Bodies to fields, under limits: what cannot be a request is refused where parsing comes to it, before it takes
 * memory.
 *
 * <p>Owned by: thread-safe.
 */
final class RequestParser {
    /** JSON schemas of tools nest about ten deep. */
    private static final int MAX_NESTING = 100;

    private static final int MAX_NAME_LENGTH = 1000;
    private static final int MAX_NUMBER_LENGTH = 100;
    /** Of braces, brackets, names and values: a parsed body then takes at most about 100 MB. */
    private static final int MAX_JSON_TOKENS = 1_000_000;
    /** Values besides prompts, such as a tool's description, may be as long whatever the context. */
    private static final int MIN_STRING_LIMIT = 1 << 20;
    /** How the parser begins to say that a string is too long. */
    private static final String STRING_TOO_LONG = "String value length";

    private final ObjectMapper json;
    private final PromptReader prompts;
    private final int maxStringLength;

    RequestParser(PromptReader prompts) {
        this.prompts = prompts;
        this.maxStringLength = Math.clamp(prompts.maxCharacters(), MIN_STRING_LIMIT, Integer.MAX_VALUE);
        this.json = new ObjectMapper(JsonFactory.builder()
                .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                // a table of names shared by all requests could be filled with names chosen to collide
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

    /** @throws RequestException when it is not a JSON object of fields which the endpoint honours */
    RequestFields parse(InputStream body, ApiFields.Endpoint endpoint) {
        JsonNode root = read(body);
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
            // this decoder, unlike the parser's own, refuses what is not UTF-8
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
                    "the body is not valid JSON, or an object of it has a name twice, at line "
                            + e.getLocation().getLineNr() + ", column "
                            + e.getLocation().getColumnNr());
        }
    }

    /**
     * JSON in a string of a request, under the same limits.
     *
     * @throws JacksonException when it is none
     */
    JsonNode parse(String text) {
        return json.readTree(text);
    }
}
