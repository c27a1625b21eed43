package dev.tandem.server.openai;

import java.util.List;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * A response as the Responses API shows it.
 *
 * @param id of the response; its items have ids of their own
 * @param created seconds since 1970
 * @param request the request that it answers
 * @param echo fields of the request that the response repeats
 */
record ResponseObject(String id, long created, String model, AnswerRequest request, Echo echo) {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TYPE = "type";

    /**
     * What a response repeats of its request.
     *
     * @param instructions empty when the request has none
     * @param previous id of the response before; empty when there is none
     * @param maxOutputTokens 0 when the request has none
     * @param fields that are repeated as they are: tools, tool_choice, parallel_tool_calls, text, reasoning, metadata
     */
    record Echo(
            String instructions,
            String previous,
            int maxOutputTokens,
            boolean store,
            boolean background,
            ObjectNode fields) {}

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

    /** What a response cost. */
    record Cost(int outputTokens, int reasoningTokens, int cachedTokens) {}

    /** The response before it has ended. */
    ObjectNode unfinished(Status status) {
        ObjectNode root = head(status);
        root.putArray("output");
        root.putNull("usage");
        return root;
    }

    /** The response with what was generated; only its last item may be incomplete. */
    ObjectNode finished(Status status, List<AnswerBlocks.Block> blocks, Cost cost) {
        ObjectNode root = head(status);
        ArrayNode output = root.putArray("output");
        blocks.forEach(block ->
                output.add(item(block, block.index() == blocks.size() - 1 ? status : Status.COMPLETED)));
        int promptTokens = request.prompt().length;
        ObjectNode usage = root.putObject("usage").put("input_tokens", promptTokens);
        usage.putObject("input_tokens_details").put("cached_tokens", cost.cachedTokens());
        usage.put("output_tokens", cost.outputTokens());
        usage.putObject("output_tokens_details").put("reasoning_tokens", cost.reasoningTokens());
        usage.put("total_tokens", promptTokens + cost.outputTokens());
        return root;
    }

    /** The response after a failure. */
    ObjectNode failed(String message) {
        ObjectNode root = unfinished(Status.FAILED);
        root.putObject("error").put("code", "server_error").put("message", message);
        return root;
    }

    /** The id of a block's item. */
    String itemId(AnswerBlocks.Block block) {
        String prefix = switch (block.kind()) {
            case REASONING -> "rs_";
            case TEXT -> "msg_";
            case CALL -> "fc_";
        };
        return prefix + id.substring(id.indexOf('_') + 1) + (block.index() == 0 ? "" : "_" + block.index());
    }

    /** A call's id, by which the client sends its result. */
    String callId(AnswerBlocks.Block block) {
        return request.reading().callId("call_", id, block.index());
    }

    /** An output item with its text so far. */
    ObjectNode item(AnswerBlocks.Block block, Status status) {
        ObjectNode item = JSON.createObjectNode().put("id", itemId(block));
        item.put("status", status == Status.COMPLETED || status == Status.IN_PROGRESS ? status.json() : "incomplete");
        switch (block.kind()) {
            case REASONING -> {
                item.put(TYPE, "reasoning").putArray("summary");
                item.putArray("content").add(part(block));
            }
            case TEXT ->
                item.put(TYPE, "message")
                        .put("role", "assistant")
                        .putArray("content")
                        .add(part(block));
            case CALL ->
                item.put(TYPE, "function_call")
                        .put("call_id", callId(block))
                        .put("name", block.name())
                        .put("arguments", block.text().toString());
        }
        return item;
    }

    /** An output item before its first text. */
    ObjectNode openItem(AnswerBlocks.Block block) {
        ObjectNode item = item(block, Status.IN_PROGRESS);
        if (item.has("content")) {
            item.putArray("content");
        } else {
            item.put("arguments", "");
        }
        return item;
    }

    /** The content of an item that is no call. */
    static ObjectNode part(AnswerBlocks.Block block) {
        return part(block.kind(), block.text().toString());
    }

    /** The content before its first text. */
    static ObjectNode openPart(AnswerBlocks.Block block) {
        return part(block.kind(), "");
    }

    private static ObjectNode part(AnswerBlocks.Kind kind, String text) {
        boolean reasons = kind == AnswerBlocks.Kind.REASONING;
        ObjectNode part = JSON.createObjectNode()
                .put(TYPE, reasons ? "reasoning_text" : "output_text")
                .put("text", text);
        if (!reasons) {
            part.putArray("annotations");
            part.putArray("logprobs");
        }
        return part;
    }

    private ObjectNode head(Status status) {
        ObjectNode root = JSON.createObjectNode()
                .put("id", id)
                .put("object", "response")
                .put("created_at", created)
                .put("status", status.json())
                .put("background", echo.background())
                .put("model", model);
        root.putNull("error");
        if (status == Status.INCOMPLETE) {
            root.putObject("incomplete_details").put("reason", "max_output_tokens");
        } else {
            root.putNull("incomplete_details");
        }
        putText(root, "instructions", echo.instructions());
        putText(root, "previous_response_id", echo.previous());
        if (echo.maxOutputTokens() > 0) {
            root.put("max_output_tokens", echo.maxOutputTokens());
        } else {
            root.putNull("max_output_tokens");
        }
        root.put("temperature", request.sampling().temperature())
                .put("top_p", request.sampling().topP())
                .put("store", echo.store())
                .put("truncation", "disabled");
        echo.fields()
                .properties()
                .forEach(field -> root.set(field.getKey(), field.getValue().deepCopy()));
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
