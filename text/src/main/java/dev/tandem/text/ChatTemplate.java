package dev.tandem.text;

import dev.tandem.text.jinja.JinjaException;
import dev.tandem.text.jinja.JinjaTemplate;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZonedDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * The chat template of a model, which renders a conversation as a prompt.
 *
 * <p>Owned by: thread-safe; immutable.
 */
public final class ChatTemplate {
    /** Variables that a request cannot set: arguments of {@link #render}, and functions that every template has. */
    public static final Set<String> RESERVED_NAMES = Set.of(
            "messages",
            "tools",
            "documents",
            "add_generation_prompt",
            "bos_token",
            "eos_token",
            "raise_exception",
            "strftime_now",
            "range",
            "namespace",
            "dict",
            "loop");

    private static final ObjectMapper JSON = new ObjectMapper();
    /** {@code tokenizer_config.json} lists all added tokens; the largest have about 10,000 of 200 bytes each. */
    private static final long MAX_BYTES = 16 << 20;

    private final JinjaTemplate template;
    private final String source;
    private final String beginToken;
    private final String endToken;

    /**
     * @param beginToken available to the template as {@code bos_token}
     * @param endToken available to the template as {@code eos_token}
     */
    public ChatTemplate(String source, String beginToken, String endToken) {
        this.template = new JinjaTemplate(source, ZonedDateTime::now);
        this.source = source;
        this.beginToken = beginToken;
        this.endToken = endToken;
    }

    /** Reads {@code chat_template.jinja} or {@code tokenizer_config.json}; empty when the model has no template. */
    public static Optional<ChatTemplate> read(Path directory) {
        Path configFile = directory.resolve("tokenizer_config.json");
        Path templateFile = directory.resolve("chat_template.jinja");
        try {
            JsonNode config = Files.exists(configFile)
                    ? JSON.readTree(BoundedFile.read(configFile, MAX_BYTES))
                    : JSON.createObjectNode();
            Optional<String> source = Files.exists(templateFile)
                    ? Optional.of(new String(BoundedFile.read(templateFile, MAX_BYTES), StandardCharsets.UTF_8))
                    : source(config.path("chat_template"));
            return source.map(text -> new ChatTemplate(text, token(config, "bos_token"), token(config, "eos_token")));
        } catch (IOException | JacksonException e) {
            throw new TokenizerException(directory + ": the chat template cannot be read: " + e.getMessage(), e);
        }
    }

    /** The only template, or the one named "default" among several. */
    private static Optional<String> source(JsonNode node) {
        if (node.isString()) {
            return Optional.of(node.asString());
        }
        for (JsonNode named : node) {
            if (named.path("name").asString("").equals("default")) {
                return Optional.of(named.path("template").asString());
            }
        }
        return Optional.empty();
    }

    private static String token(JsonNode config, String name) {
        JsonNode token = config.path(name);
        return token.isObject() ? token.path("content").asString("") : token.asString("");
    }

    /** The template's text in Jinja's language. */
    public String source() {
        return source;
    }

    /** Whether the template's source has this text: a variable that it reads, or a marker that it writes. */
    public boolean mentions(String text) {
        return source.contains(text);
    }

    /**
     * Renders a conversation as a prompt.
     *
     * @param messages JSON-like objects with at least "role"
     * @param tools JSON-like function descriptions, or empty
     * @param extra further variables, from the request
     * @throws JinjaException when {@code extra} has a reserved name, or {@link JinjaTemplate#render} throws it
     */
    public String render(
            List<? extends Map<String, ?>> messages, List<?> tools, boolean addGenerationPrompt, Map<String, ?> extra) {
        for (String name : extra.keySet()) {
            if (RESERVED_NAMES.contains(name)) {
                throw new JinjaException(
                        "'" + name + "' cannot be set; the server sets it, like " + new TreeSet<>(RESERVED_NAMES));
            }
        }
        Map<String, Object> variables = new HashMap<>(extra);
        variables.put("messages", messages);
        variables.put("tools", tools.isEmpty() ? null : tools);
        variables.put("documents", null);
        variables.put("add_generation_prompt", addGenerationPrompt);
        variables.put("bos_token", beginToken);
        variables.put("eos_token", endToken);
        return template.render(variables);
    }
}
