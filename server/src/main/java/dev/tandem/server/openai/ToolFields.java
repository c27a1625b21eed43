package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.Optional;
import tools.jackson.databind.JsonNode;

/** Reads {@code tools}, {@code tool_choice} and {@code parallel_tool_calls} of OpenAI's APIs. */
final class ToolFields {
    private static final String CHOICE = "tool_choice";
    private static final String PARALLEL = "parallel_tool_calls";

    private ToolFields() {}

    /**
     * Checks the tools, and reads which of them the model may or must call.
     *
     * @param layout of the API
     */
    static ToolUse read(RequestFields fields, ToolList layout, ServedModel model) {
        boolean parallel = !fields.honours(PARALLEL) || fields.flag(PARALLEL, true); // no answer, no calls
        return choice(fields, layout).use(layout.read(fields), parallel, model);
    }

    private static ToolChoice choice(RequestFields fields, ToolList layout) {
        Optional<JsonNode> choice = fields.field(CHOICE);
        boolean nested = layout == ToolList.CHAT;
        if (choice.isPresent() && choice.get().isObject()) {
            return named(choice.get(), nested);
        }
        String word = choice.map(node -> RequestFields.string(CHOICE, node)).orElse("auto");
        return switch (word) {
            case "none" -> new ToolChoice.None();
            case "auto" -> new ToolChoice.Auto();
            case "required" -> new ToolChoice.Required(CHOICE);
            default ->
                throw RequestException.bad(
                        CHOICE,
                        "tool_choice is \"" + Printable.of(word) + "\"; it must be \"none\", \"auto\", \"required\", or"
                                + " {\"type\": \"function\", "
                                + (nested ? "\"function\": {\"name\": ...}}" : "\"name\": ...}"));
        };
    }

    private static ToolChoice named(JsonNode choice, boolean nested) {
        JsonNode type = choice.path("type");
        if (!type.asString("").equals("function")) {
            throw RequestException.bad(
                    "tool_choice.type",
                    "tool_choice.type is " + RequestFields.shown(type) + "; it must be \"function\"");
        }
        String field = nested ? "tool_choice.function.name" : "tool_choice.name";
        JsonNode name = (nested ? choice.path("function") : choice).path("name");
        return new ToolChoice.Named(CHOICE, field, RequestFields.string(field, name));
    }
}
