package dev.tandem.text;

import dev.tandem.text.jinja.JinjaTemplate;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.ZonedDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** How a conversation becomes the model's prompt. Thread-safe. */
public final class ChatTemplate {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final JinjaTemplate template;
    private final String beginToken;
    private final String endToken;

    /**
     * @param beginToken available to the template as {@code bos_token}
     * @param endToken likewise {@code eos_token}
     */
    public ChatTemplate(String source, String beginToken, String endToken) {
        this.template = new JinjaTemplate(source, ZonedDateTime::now);
        this.beginToken = beginToken;
        this.endToken = endToken;
    }

    /** From {@code chat_template.jinja} or {@code tokenizer_config.json}; empty when the model has none. */
    public static Optional<ChatTemplate> read(Path directory) {
        Path configFile = directory.resolve("tokenizer_config.json");
        Path templateFile = directory.resolve("chat_template.jinja");
        try {
            JsonNode config = Files.exists(configFile)
                    ? JSON.readTree(Files.readAllBytes(configFile))
                    : JSON.createObjectNode();
            Optional<String> source = Files.exists(templateFile)
                    ? Optional.of(Files.readString(templateFile))
                    : source(config.path("chat_template"));
            return source.map(text -> new ChatTemplate(text, token(config, "bos_token"), token(config, "eos_token")));
        } catch (IOException | JacksonException e) {
            throw new TokenizerException(directory + ": the chat template cannot be read: " + e.getMessage(), e);
        }
    }

    /** One template, or the one named "default" of several. */
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

    /**
     * @param messages JSON-like objects with at least "role"
     * @param tools JSON-like function descriptions, or empty
     * @param extra further variables the request sets
     */
    public String render(
            List<? extends Map<String, ?>> messages,
            List<?> tools,
            boolean addGenerationPrompt,
            Map<String, ?> extra) {
        Map<String, Object> variables = new HashMap<>();
        variables.put("messages", messages);
        variables.put("tools", tools.isEmpty() ? null : tools);
        variables.put("documents", null);
        variables.put("add_generation_prompt", addGenerationPrompt);
        variables.put("bos_token", beginToken);
        variables.put("eos_token", endToken);
        variables.putAll(extra);
        return template.render(variables);
    }
}
