package dev.tandem.library;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * A conversation to answer.
 *
 * @param messages at least one
 * @param tools that the model may call
 * @param fields further fields of {@code POST /v1/chat/completions}, as JSON, such as {@code structured_outputs}
 */
public record ChatRequest(
        List<Message> messages,
        Sampling sampling,
        List<Tool> tools,
        ToolChoice toolChoice,
        ResponseFormat format,
        Map<String, String> fields) {
    /** Copies the lists and the map. */
    public ChatRequest {
        messages = List.copyOf(messages);
        tools = List.copyOf(tools);
        fields = Map.copyOf(fields);
    }

    /** A request with all defaults. */
    public static ChatRequest of(Message... messages) {
        return of(List.of(messages));
    }

    /** A request with all defaults. */
    public static ChatRequest of(List<Message> messages) {
        return new ChatRequest(
                messages, Sampling.defaults(), List.of(), new ToolChoice.Auto(), new ResponseFormat.Text(), Map.of());
    }

    /** The same with other {@link #sampling}. */
    public ChatRequest withSampling(Sampling value) {
        return new ChatRequest(messages, value, tools, toolChoice, format, fields);
    }

    /** The same with other {@link #tools}. */
    public ChatRequest withTools(List<Tool> value) {
        return new ChatRequest(messages, sampling, value, toolChoice, format, fields);
    }

    /** The same with another {@link #toolChoice}. */
    public ChatRequest withToolChoice(ToolChoice value) {
        return new ChatRequest(messages, sampling, tools, value, format, fields);
    }

    /** The same with another {@link #format}. */
    public ChatRequest withFormat(ResponseFormat value) {
        return new ChatRequest(messages, sampling, tools, toolChoice, value, fields);
    }

    /** The same with other {@link #fields}. */
    public ChatRequest withFields(Map<String, String> value) {
        return new ChatRequest(messages, sampling, tools, toolChoice, format, value);
    }

    /** The same for the model of this name; a request for another than the loaded one is refused. */
    public ChatRequest withModel(String value) {
        Map<String, String> more = new HashMap<>(fields);
        more.put("model", Fields.JSON.writeValueAsString(value));
        return withFields(more);
    }

    ObjectNode json() {
        ObjectNode request = Fields.JSON.createObjectNode();
        ArrayNode list = request.putArray("messages");
        messages.forEach(message -> write(message, list.addObject()));
        sampling.write(request);
        writeTools(request);
        switch (format) {
            case ResponseFormat.Text() -> {}
            case ResponseFormat.JsonObject() ->
                request.putObject("response_format").put("type", "json_object");
            case ResponseFormat.JsonSchema(String name, String schema) ->
                request.putObject("response_format")
                        .put("type", "json_schema")
                        .putObject("json_schema")
                        .put("name", name)
                        .put("strict", true)
                        .set("schema", Fields.parse("response_format", schema));
        }
        Fields.addTo(request, fields);
        return request;
    }

    private void writeTools(ObjectNode request) {
        if (tools.isEmpty()) {
            return;
        }
        ArrayNode list = request.putArray("tools");
        for (Tool tool : tools) {
            list.addObject()
                    .put("type", "function")
                    .putObject("function")
                    .put("name", tool.name())
                    .put("description", tool.description())
                    .set("parameters", Fields.parse("tools", tool.parameters()));
        }
        switch (toolChoice) {
            case ToolChoice.Auto() -> request.put("tool_choice", "auto");
            case ToolChoice.None() -> request.put("tool_choice", "none");
            case ToolChoice.Required() -> request.put("tool_choice", "required");
            case ToolChoice.Named(String tool) ->
                request.putObject("tool_choice")
                        .put("type", "function")
                        .putObject("function")
                        .put("name", tool);
        }
    }

    private static void write(Message message, ObjectNode node) {
        switch (message) {
            case Message.System(String text) -> node.put("role", "system").put("content", text);
            case Message.User(String text) -> node.put("role", "user").put("content", text);
            case Message.Assistant(String text, List<ToolCall> calls) -> {
                node.put("role", "assistant").put("content", text);
                if (!calls.isEmpty()) {
                    ArrayNode list = node.putArray("tool_calls");
                    calls.forEach(call -> list.addObject()
                            .put("id", call.id())
                            .put("type", "function")
                            .putObject("function")
                            .put("name", call.tool())
                            .put("arguments", call.arguments()));
                }
            }
            case Message.ToolResult(String callId, String text) ->
                node.put("role", "tool").put("tool_call_id", callId).put("content", text);
        }
    }
}
