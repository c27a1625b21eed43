package dev.tandem.server.openai;

import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * A response as the Responses API shows it.
 *
 * @param id of the response; its message has an id of its own
 * @param created seconds since 1970
 * @param request fields of the request that the response repeats
 */
record ResponseObject(String id, long created, String model, int promptTokens, Echo request) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /**
     * What a response repeats of its request.
     *
     * @param instructions empty when the request has none
     * @param previous id of the response before; empty when there is none
     * @param maxOutputTokens 0 when the request has none
     */
    record Echo(
            String instructions,
            String previous,
            int maxOutputTokens,
            double temperature,
            double topP,
            boolean store,
            boolean background,
            JsonNode metadata) {}

    /** Where a response stands. */
    enum Status {
        QUEUED,
        IN_PROGRESS,
        COMPLETED,
        INCOMPLETE,
        CANCELLED,
        FAILED;

        String json() {
            return switch (this) {
                case QUEUED -> "queued";
                case IN_PROGRESS -> "in_progress";
                case COMPLETED -> "completed";
                case INCOMPLETE -> "incomplete";
                case CANCELLED -> "cancelled";
                case FAILED -> "failed";
            };
        }
    }

    String messageId() {
        return "msg_" + id.substring(id.indexOf('_') + 1);
    }

    /** The response before it has ended. */
    ObjectNode unfinished(Status status) {
        ObjectNode root = head(status);
        root.putArray("output");
        root.putNull("usage");
        return root;
    }

    /**
     * The response with what was generated.
     *
     * @param cachedTokens of the prompt
     */
    ObjectNode finished(Status status, String text, int outputTokens, int cachedTokens) {
        ObjectNode root = head(status);
        root.putArray("output").add(message(status, text));
        ObjectNode usage = root.putObject("usage").put("input_tokens", promptTokens);
        usage.putObject("input_tokens_details").put("cached_tokens", cachedTokens);
        usage.put("output_tokens", outputTokens);
        usage.putObject("output_tokens_details").put("reasoning_tokens", 0);
        usage.put("total_tokens", promptTokens + outputTokens);
        return root;
    }

    /** The response after a failure. */
    ObjectNode failed(String message) {
        ObjectNode root = unfinished(Status.FAILED);
        root.putObject("error").put("code", "server_error").put("message", message);
        return root;
    }

    /** The output item. */
    ObjectNode message(Status status, String text) {
        ObjectNode message = JSON.createObjectNode()
                .put("type", "message")
                .put("id", messageId())
                .put(
                        "status",
                        status == Status.COMPLETED || status == Status.IN_PROGRESS ? status.json() : "incomplete")
                .put("role", "assistant");
        message.putArray("content").add(part(text));
        return message;
    }

    /** The output item before its first text. */
    ObjectNode openMessage() {
        ObjectNode message = message(Status.IN_PROGRESS, "");
        message.putArray("content");
        return message;
    }

    static ObjectNode part(String text) {
        ObjectNode part = JSON.createObjectNode().put("type", "output_text").put("text", text);
        part.putArray("annotations");
        part.putArray("logprobs");
        return part;
    }

    private ObjectNode head(Status status) {
        ObjectNode root = JSON.createObjectNode()
                .put("id", id)
                .put("object", "response")
                .put("created_at", created)
                .put("status", status.json())
                .put("background", request.background())
                .put("model", model);
        root.putNull("error");
        if (status == Status.INCOMPLETE) {
            root.putObject("incomplete_details").put("reason", "max_output_tokens");
        } else {
            root.putNull("incomplete_details");
        }
        putText(root, "instructions", request.instructions());
        putText(root, "previous_response_id", request.previous());
        if (request.maxOutputTokens() > 0) {
            root.put("max_output_tokens", request.maxOutputTokens());
        } else {
            root.putNull("max_output_tokens");
        }
        root.put("temperature", request.temperature())
                .put("top_p", request.topP())
                .put("store", request.store())
                .put("parallel_tool_calls", true)
                .put("tool_choice", "auto")
                .put("truncation", "disabled")
                .set("metadata", request.metadata());
        root.putArray("tools");
        root.putObject("text").putObject("format").put("type", "text");
        root.putObject("reasoning").putNull("effort").putNull("summary");
        return root;
    }

    private static void putText(ObjectNode root, String name, String text) {
        if (text.isEmpty()) {
            root.putNull(name);
        } else {
            root.put(name, text);
        }
    }
}
