package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.Set;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Translates the input items of the Responses API to messages of chat completions. */
final class ResponsesPrompt {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String CONTENT = "content";
    private static final String SYSTEM = "system";
    private static final String ASSISTANT = "assistant";
    private static final Set<String> ROLES = Set.of("user", ASSISTANT, SYSTEM, "developer");
    private static final Set<String> TEXT_PARTS = Set.of("input_text", "output_text", "text", "reasoning_text");

    private ResponsesPrompt() {}

    /** Appends the request's input to a conversation. */
    static void append(ArrayNode conversation, RequestFields fields) {
        JsonNode input = fields.field("input")
                .orElseThrow(() ->
                        RequestException.bad("input", "input is missing; it must be a string or a list of items"));
        if (input.isString()) {
            conversation.addObject().put("role", "user").put(CONTENT, input.asString());
            return;
        }
        if (!input.isArray() || input.isEmpty()) {
            throw RequestFields.wrong("input", input, "a string or a list of at least one item");
        }
        String reasoning = "";
        for (int i = 0; i < input.size(); i++) {
            String at = "input[" + i + "]";
            JsonNode item = input.get(i);
            if (item.path("type").asString("").equals("reasoning")) {
                reasoning = reasoning(item, at);
            } else {
                item(conversation, item, at);
                addReasoning(conversation, reasoning);
                reasoning = "";
            }
        }
    }

    /** The text of a reasoning item; summaries and encrypted reasoning have none. */
    private static String reasoning(JsonNode item, String at) {
        JsonNode content = item.path(CONTENT);
        return content.isMissingNode() || content.isNull() ? "" : text(content, at + ".content");
    }

    /** Adds reasoning to the message of the assistant that follows it; templates show it where it helps the model. */
    private static void addReasoning(ArrayNode conversation, String reasoning) {
        if (!reasoning.isEmpty()
                && conversation.path(conversation.size() - 1) instanceof ObjectNode message
                && isAssistant(message)) {
            message.put("reasoning_content", reasoning);
        }
    }

    private static boolean isAssistant(JsonNode message) {
        return message.path("role").asString("").equals(ASSISTANT);
    }

    /** The conversation with instructions before it; templates want at most one system message, the first. */
    static ArrayNode withInstructions(ArrayNode conversation, String instructions) {
        if (instructions.isEmpty()) {
            return conversation;
        }
        ArrayNode whole = JSON.createArrayNode();
        boolean hasSystem = conversation.path(0).path("role").asString("").equals(SYSTEM);
        String own = hasSystem ? "\n\n" + conversation.get(0).path(CONTENT).asString("") : "";
        whole.addObject().put("role", SYSTEM).put(CONTENT, instructions + own);
        for (int i = hasSystem ? 1 : 0; i < conversation.size(); i++) {
            whole.add(conversation.get(i));
        }
        return whole;
    }

    private static void item(ArrayNode conversation, JsonNode item, String at) {
        String type = item.path("type").asString("message");
        switch (type) {
            case "message" -> message(conversation, item, at);
            case "function_call" -> call(conversation, item, at);
            case "function_call_output" ->
                conversation
                        .addObject()
                        .put("role", "tool")
                        .put("tool_call_id", RequestFields.string(at + ".call_id", item.path("call_id")))
                        .put(CONTENT, text(item.path("output"), at + ".output"));
            default ->
                throw RequestException.bad(
                        at + ".type",
                        at + " has the type '" + Printable.of(type)
                                + "', which is not supported; send messages and calls of functions");
        }
    }

    private static void message(ArrayNode conversation, JsonNode item, String at) {
        String role = item.path("role").asString("");
        if (!ROLES.contains(role)) {
            throw RequestFields.wrong(
                    at + ".role", item.path("role"), "\"user\", \"assistant\", \"system\" or \"developer\"");
        }
        conversation
                .addObject()
                .put("role", role.equals("developer") ? SYSTEM : role)
                .put(CONTENT, text(item.path(CONTENT), at + ".content"));
    }

    /** Calls belong to the message of the assistant before them. */
    private static void call(ArrayNode conversation, JsonNode item, String at) {
        if (!item.path("name").isString() || !item.path("arguments").isString()) {
            throw RequestFields.wrong(at, item, "a function_call with a name and arguments in a string");
        }
        String id = RequestFields.string(at + ".call_id", item.path("call_id"));
        JsonNode last = conversation.path(conversation.size() - 1);
        ObjectNode message = last instanceof ObjectNode object && isAssistant(object)
                ? object
                : conversation.addObject().put("role", ASSISTANT).put(CONTENT, "");
        ObjectNode call =
                message.withArray("tool_calls").addObject().put("id", id).put("type", "function");
        call.putObject("function")
                .put("name", item.path("name").asString())
                .put("arguments", item.path("arguments").asString());
    }

    private static String text(JsonNode content, String at) {
        if (content.isString()) {
            return content.asString();
        }
        if (!content.isArray()) {
            throw RequestFields.wrong(at, content, "a string or a list of text parts");
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < content.size(); i++) {
            JsonNode part = content.get(i);
            if (!TEXT_PARTS.contains(part.path("type").asString(""))
                    || !part.path("text").isString()) {
                throw RequestFields.wrong(at + "[" + i + "]", part, "a text part; images and files are not supported");
            }
            text.append(text.isEmpty() ? "" : "\n").append(part.path("text").asString());
        }
        return text.toString();
    }
}
