package dev.tandem.text.fuzz;

import dev.tandem.text.jinja.JinjaException;
import dev.tandem.text.jinja.JinjaTemplate;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.Map;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;

/**
 * Fuzz target: a template, a zero byte, and its variables as JSON. Rendering returns a text or throws a JinjaException.
 */
public final class JinjaFuzz {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ZonedDateTime NOW = ZonedDateTime.of(2026, 1, 2, 3, 4, 5, 0, ZoneOffset.UTC);

    private JinjaFuzz() {}

    public static void fuzzerTestOneInput(byte[] data) {
        String[] parts = new String(data, StandardCharsets.UTF_8).split("\0", 2);
        try {
            new JinjaTemplate(parts[0], () -> NOW).render(variables(parts.length > 1 ? parts[1] : ""));
        } catch (JinjaException e) {
            if (e.getMessage() == null) {
                throw new AssertionError("an error without a message", e);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> variables(String json) {
        try {
            return JSON.readValue(json, Map.class);
        } catch (JacksonException e) {
            return Map.of("messages", json);
        }
    }
}
