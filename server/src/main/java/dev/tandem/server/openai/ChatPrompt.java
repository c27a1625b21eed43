package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.text.ChatTemplate;
import dev.tandem.text.jinja.JinjaException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;

/** Renders a conversation with the model's chat template and tokenizes it. */
final class ChatPrompt {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final ServedModel model;
    private final PromptReader promptReader;
    private final RequestParser parser;

    ChatPrompt(ServedModel model, PromptReader promptReader, RequestParser parser) {
        this.model = model;
        this.promptReader = promptReader;
        this.parser = parser;
    }

    /**
     * Renders the conversation of a request with {@code messages}.
     *
     * @param tools that the prompt lists
     * @param demanded what the answer must match, if the request says so
     */
    int[] read(RequestFields fields, ToolUse tools, Optional<GrammarFields.Constraint> demanded) {
        ChatTemplate template = template("messages");
        JsonNode messages = fields.field("messages")
                .orElseThrow(
                        () -> RequestException.bad("messages", "messages is missing; it must be a list of messages"));
        List<Map<String, Object>> conversation = messages("messages", messages, template);
        Map<String, Object> extra = new HashMap<>(ReasoningFields.variables(fields, model, demanded));
        fields.field("chat_template_kwargs").ifPresent(node -> {
            if (!node.isObject()) {
                throw RequestFields.wrong("chat_template_kwargs", node, "an object");
            }
            node.propertyStream().forEach(entry -> {
                if (ChatTemplate.RESERVED_NAMES.contains(entry.getKey())) {
                    throw RequestException.bad(
                            "chat_template_kwargs",
                            "chat_template_kwargs has '" + entry.getKey() + "', which the server sets; leave it out");
                }
                extra.put(entry.getKey(), plain(entry.getValue()));
            });
        });
        boolean continueFinal = fields.flag("continue_final_message", false);
        boolean addGenerationPrompt = fields.flag("add_generation_prompt", !continueFinal);
        if (continueFinal && addGenerationPrompt) {
            throw RequestException.bad(
                    "continue_final_message",
                    "continue_final_message and add_generation_prompt are both true; leave one of them out");
        }
        boolean addSpecialTokens = fields.flag("add_special_tokens", false);
        String text =
                render("messages", template, conversation, plain(tools.definitions()), addGenerationPrompt, extra);
        return promptReader.encode(
                "messages",
                continueFinal ? openEnd("messages", conversation, text) : text,
                addSpecialTokens,
                fields.honours("truncate_prompt_tokens")
                        && fields.field("truncate_prompt_tokens").isPresent());
    }

    /**
     * Renders a conversation that another API's request was translated to.
     *
     * @param field of that request, which errors name
     * @param messages as {@code messages} of /v1/chat/completions
     * @param tools as {@code tools} of /v1/chat/completions
     * @param continueFinal whether the answer continues the last message
     * @param variables further ones of the template
     */
    int[] read(
            String field,
            ArrayNode messages,
            List<JsonNode> tools,
            boolean continueFinal,
            Map<String, Object> variables) {
        ChatTemplate template = template(field);
        List<Map<String, Object>> conversation = messages(field, messages, template);
        String text = render(field, template, conversation, plain(tools), !continueFinal, variables);
        return promptReader.encode(field, continueFinal ? openEnd(field, conversation, text) : text, false, false);
    }

    private ChatTemplate template(String field) {
        return model.template().orElseThrow(() -> RequestException.bad(field, model.missingTemplate()));
    }

    private static String render(
            String field,
            ChatTemplate template,
            List<Map<String, Object>> conversation,
            List<Object> tools,
            boolean addGenerationPrompt,
            Map<String, Object> extra) {
        try {
            return template.render(conversation, tools, addGenerationPrompt, extra);
        } catch (JinjaException e) {
            String kind =
                    e.isRaisedByTemplate() ? "the chat template refused the messages: " : "the chat template failed: ";
            throw RequestException.bad(field, kind + e.getMessage());
        }
    }

    /** The rendered conversation up to the end of the last message's text, without what the template puts after it. */
    private static String openEnd(String field, List<Map<String, Object>> conversation, String text) {
        String last = conversation.getLast().get("content") instanceof String content ? content.strip() : "";
        int at = last.isEmpty() ? -1 : text.lastIndexOf(last);
        if (at < 0) {
            throw RequestException.bad(
                    field,
                    "the last message cannot be continued: it has no text, or the chat template does not show its"
                            + " text; end the messages with one that has text");
        }
        return text.substring(0, at + last.length());
    }

    private List<Map<String, Object>> messages(String field, JsonNode messages, ChatTemplate template) {
        if (!messages.isArray() || messages.isEmpty()) {
            throw RequestFields.wrong(field, messages, "a list of at least one message");
        }
        promptReader.checkTokens(field, messages.size()); // a template adds at least one token per message
        List<Map<String, Object>> conversation = new ArrayList<>();
        long characters = 0;
        for (JsonNode message : messages) {
            Map<String, Object> values = message(message);
            if (template.mentions("message.thinking")) {
                nameReasoning(values);
            }
            characters += values.get("content") instanceof String content ? content.length() : 0;
            conversation.add(values);
        }
        promptReader.checkLength(field, characters);
        return conversation;
    }

    private Map<String, Object> message(JsonNode message) {
        if (!message.isObject() || !message.path("role").isString()) {
            throw RequestFields.wrong("messages", message, "a list of objects with a role");
        }
        Map<String, Object> values = new HashMap<>();
        message.propertyStream().forEach(entry -> values.put(entry.getKey(), plain(entry.getValue())));
        JsonNode content = message.path("content");
        if (content.isArray()) {
            values.put("content", textOf(content));
        } else if (!content.isString() && !content.isNull() && !content.isMissingNode()) {
            throw RequestFields.wrong(
                    "messages", content, "a message content that is a string or a list of text parts");
        }
        if (content.isNull()) {
            values.put("content", ""); // beside calls; templates look for markers in it
        }
        if (message.path("tool_calls").isArray()) {
            values.put("tool_calls", toolCalls(message.path("tool_calls")));
        }
        return values;
    }

    /**
     * Gives reasoning the name by which gpt-oss's template reads it. Beside calls that template takes text or
     * reasoning, and refuses both: the text stays.
     */
    private static void nameReasoning(Map<String, Object> message) {
        boolean textAndCalls = message.containsKey("tool_calls")
                && !message.getOrDefault("content", "").equals("");
        if (message.get("reasoning_content") instanceof String reasoning && !textAndCalls) {
            message.putIfAbsent("thinking", reasoning);
        }
    }

    /** Clients send a call's arguments as JSON in a string; templates iterate over them as an object. */
    private List<Object> toolCalls(JsonNode calls) {
        List<Object> list = new ArrayList<>();
        for (JsonNode call : calls) {
            JsonNode function = call.path("function");
            if (!function.isObject()) {
                throw RequestFields.wrong("messages", call, "a tool call with a function");
            }
            Map<String, Object> values = new HashMap<>();
            function.propertyStream().forEach(entry -> values.put(entry.getKey(), plain(entry.getValue())));
            values.put("arguments", plain(arguments(function.path("arguments"))));
            Map<String, Object> whole = new HashMap<>();
            call.propertyStream().forEach(entry -> whole.put(entry.getKey(), plain(entry.getValue())));
            whole.put("function", values);
            list.add(whole);
        }
        return list;
    }

    private JsonNode arguments(JsonNode arguments) {
        if (arguments.isMissingNode()
                || arguments.isNull()
                || arguments.asString("-").isBlank()) {
            return JSON.createObjectNode(); // a call without arguments
        }
        JsonNode parsed = arguments;
        if (arguments.isString()) {
            try {
                parsed = parser.parse(arguments.asString());
            } catch (JacksonException e) {
                throw RequestFields.wrong(
                        "messages", arguments, "a tool call whose arguments are a JSON object in a string");
            }
        }
        if (!parsed.isObject()) {
            throw RequestFields.wrong("messages", arguments, "a tool call whose arguments are a JSON object");
        }
        return parsed;
    }

    private static String textOf(JsonNode parts) {
        StringBuilder text = new StringBuilder();
        for (JsonNode part : parts) {
            if (!part.path("type").asString("").equals("text")
                    || !part.path("text").isString()) {
                throw RequestFields.wrong("messages", part, "a text part; images and audio are not supported");
            }
            text.append(text.isEmpty() ? "" : "\n").append(part.path("text").asString());
        }
        return text.toString();
    }

    private static List<Object> plain(List<JsonNode> nodes) {
        return nodes.stream().map(ChatPrompt::plain).toList();
    }

    private static Object plain(JsonNode node) {
        return JSON.convertValue(node, Object.class);
    }
}
