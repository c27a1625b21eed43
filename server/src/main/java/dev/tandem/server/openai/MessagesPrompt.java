package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Translates the conversation of Anthropic's Messages API to that of chat completions. */
final class MessagesPrompt {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ASSISTANT = "assistant";
    private static final String CONTENT = "content";
    private static final String TEXT = "text";

    private final ChatPrompt chat;

    MessagesPrompt(ChatPrompt chat) {
        this.chat = chat;
    }

    /**
     * The prompt's tokens; an answer to it continues a last message of the assistant.
     *
     * @param tools that the prompt lists
     * @param variables of the template
     */
    int[] read(RequestFields fields, ToolUse tools, Map<String, Object> variables) {
        JsonNode messages = fields.field("messages")
                .orElseThrow(
                        () -> RequestException.bad("messages", "messages is missing; it must be a list of messages"));
        if (!messages.isArray() || messages.isEmpty()) {
            throw RequestFields.wrong("messages", messages, "a list of at least one message");
        }
        ArrayNode conversation = JSON.createArrayNode();
        fields.field("system")
                .ifPresent(
                        system -> conversation.addObject().put("role", "system").put(CONTENT, system(system)));
        for (int i = 0; i < messages.size(); i++) {
            add(conversation, messages.get(i), "messages." + i);
        }
        if (conversation.isEmpty()) {
            throw RequestException.bad("messages", "messages have no content; one of them must have some");
        }
        boolean continued = conversation
                        .get(conversation.size() - 1)
                        .path("role")
                        .asString()
                        .equals(ASSISTANT)
                && !conversation.get(conversation.size() - 1).has("tool_calls");
        return chat.read("messages", conversation, tools.definitions(), continued, variables);
    }

    private static String system(JsonNode system) {
        if (system.isString()) {
            return system.asString();
        }
        if (!system.isArray()) {
            throw RequestFields.wrong("system", system, "a string or a list of text blocks");
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < system.size(); i++) {
            append(text, text(system.get(i), "system." + i));
        }
        return text.toString();
    }

    private static void add(ArrayNode conversation, JsonNode message, String at) {
        String role = message.path("role").asString("");
        if (!role.equals("user") && !role.equals(ASSISTANT)) {
            throw RequestFields.wrong(at + ".role", message.path("role"), "\"user\" or \"assistant\"");
        }
        JsonNode content = message.path(CONTENT);
        if (content.isString()) {
            conversation.addObject().put("role", role).put(CONTENT, content.asString());
            return;
        }
        if (!content.isArray()) {
            throw RequestFields.wrong(at + ".content", content, "a string or a list of content blocks");
        }
        blocks(conversation, role, content, at + ".content");
    }

    /** Results of tools become messages of their own, before the text of the same message. */
    private static void blocks(ArrayNode conversation, String role, JsonNode blocks, String at) {
        StringBuilder text = new StringBuilder();
        StringBuilder reasoning = new StringBuilder();
        ArrayNode calls = JSON.createArrayNode();
        for (int i = 0; i < blocks.size(); i++) {
            JsonNode block = blocks.get(i);
            String place = at + "." + i;
            String type = block.path("type").asString("");
            boolean byAssistant = role.equals(ASSISTANT);
            if (type.equals(TEXT)) {
                append(text, text(block, place));
            } else if (byAssistant && type.equals("tool_use")) {
                call(calls, block, place);
            } else if (!byAssistant && type.equals("tool_result")) {
                conversation.add(result(block, place));
            } else if (byAssistant && type.equals("thinking")) {
                append(reasoning, block.path("thinking").asString(""));
            } else if (!byAssistant || !type.equals("redacted_thinking")) {
                throw RequestException.bad(
                        place + ".type",
                        place + " of the " + role + " has the type '" + Printable.of(type)
                                + "', which is not supported; send "
                                + (byAssistant ? "text, tool_use or thinking" : "text or tool_result"));
            }
        }
        if (text.isEmpty() && calls.isEmpty()) {
            return;
        }
        ObjectNode message = conversation.addObject().put("role", role).put(CONTENT, text.toString());
        if (!reasoning.isEmpty()) { // templates show it where the model is to go on with it
            message.put("reasoning_content", reasoning.toString());
        }
        if (!calls.isEmpty()) {
            message.set("tool_calls", calls);
        }
    }

    private static void call(ArrayNode calls, JsonNode block, String at) {
        if (!block.path("name").isString() || !block.path("input").isObject()) {
            throw RequestFields.wrong(at, block, "a tool_use with a name and an input object");
        }
        String id = RequestFields.string(at + ".id", block.path("id"));
        ObjectNode call = calls.addObject().put("id", id).put("type", "function");
        call.putObject("function").put("name", block.path("name").asString()).set("arguments", block.path("input"));
    }

    private static ObjectNode result(JsonNode block, String at) {
        JsonNode content = block.path(CONTENT);
        StringBuilder text = new StringBuilder();
        if (content.isString()) {
            text.append(content.asString());
        } else if (content.isArray()) {
            for (int i = 0; i < content.size(); i++) {
                append(text, text(content.get(i), at + ".content." + i));
            }
        } else if (!content.isMissingNode() && !content.isNull()) {
            throw RequestFields.wrong(at + ".content", content, "a string or a list of text blocks");
        }
        return JSON.createObjectNode()
                .put("role", "tool")
                .put("tool_call_id", RequestFields.string(at + ".tool_use_id", block.path("tool_use_id")))
                .put(CONTENT, isError(block, at) ? "Error: " + text : text.toString());
    }

    /** Templates show the text of a result alone, so the text must say that the call failed. */
    private static boolean isError(JsonNode block, String at) {
        JsonNode isError = block.path("is_error");
        return !isError.isMissingNode() && !isError.isNull() && RequestFields.truth(at + ".is_error", isError);
    }

    private static String text(JsonNode block, String at) {
        if (!block.path("type").asString("").equals(TEXT) || !block.path(TEXT).isString()) {
            throw RequestFields.wrong(at, block, "a text block; images and documents are not supported");
        }
        return block.path(TEXT).asString();
    }

    private static void append(StringBuilder text, String more) {
        text.append(text.isEmpty() ? "" : "\n").append(more);
    }
}
