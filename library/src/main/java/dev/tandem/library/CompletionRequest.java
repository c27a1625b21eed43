package dev.tandem.library;

import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * A text to continue as it is, without the model's chat template.
 *
 * @param prompt the text
 * @param fields further fields of {@code POST /v1/completions}, as JSON
 */
public record CompletionRequest(String prompt, Sampling sampling, Map<String, String> fields) {
    /** Copies the map. */
    public CompletionRequest {
        fields = Map.copyOf(fields);
    }

    /** A text to continue. */
    public static CompletionRequest of(String prompt, Sampling sampling) {
        return new CompletionRequest(prompt, sampling, Map.of());
    }

    ObjectNode json() {
        ObjectNode request = Fields.JSON.createObjectNode().put("prompt", prompt);
        sampling.write(request);
        Fields.addTo(request, fields);
        return request;
    }
}
