package dev.tandem.library;

import dev.tandem.engine.request.RequestException;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Writes what requests have in common as fields of OpenAI's API. */
final class Fields {
    static final ObjectMapper JSON = new ObjectMapper();

    private Fields() {}

    /** Adds further fields, which win over those that are there. */
    static void addTo(ObjectNode request, Map<String, String> further) {
        further.forEach((name, json) -> request.set(name, parse(name, json)));
    }

    /** @throws RequestException when the text is not JSON */
    static JsonNode parse(String field, String json) {
        try {
            return JSON.readTree(json);
        } catch (JacksonException e) {
            throw RequestException.bad(field, field + " is not valid JSON: " + e.getOriginalMessage());
        }
    }
}
