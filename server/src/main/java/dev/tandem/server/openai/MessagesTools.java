package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import java.util.Optional;
import tools.jackson.databind.JsonNode;

/** Reads {@code tools} and {@code tool_choice} of Anthropic's Messages API. */
final class MessagesTools {
    private static final String CHOICE = "tool_choice";

    private MessagesTools() {}

    /** Checks the tools, and reads which of them the model may or must call. */
    static ToolUse read(RequestFields fields, ServedModel model) {
        Optional<JsonNode> choice = fields.field(CHOICE);
        boolean parallel = choice.map(MessagesTools::isParallel).orElse(true);
        return choice.map(MessagesTools::choice)
                .orElseGet(ToolChoice.Auto::new)
                .use(ToolList.MESSAGES.read(fields), parallel, model);
    }

    private static boolean isParallel(JsonNode choice) {
        JsonNode disabled = choice.path("disable_parallel_tool_use");
        return disabled.isMissingNode()
                || disabled.isNull()
                || !RequestFields.truth(CHOICE + ".disable_parallel_tool_use", disabled);
    }

    private static ToolChoice choice(JsonNode choice) {
        JsonNode type = choice.path("type");
        return switch (type.asString("")) {
            case "none" -> new ToolChoice.None();
            case "auto" -> new ToolChoice.Auto();
            case "any" -> new ToolChoice.Required(CHOICE);
            case "tool" -> {
                String field = CHOICE + ".name";
                yield new ToolChoice.Named(CHOICE, field, RequestFields.string(field, choice.path("name")));
            }
            default ->
                throw RequestException.bad(
                        CHOICE + ".type",
                        "tool_choice.type is " + RequestFields.shown(type)
                                + "; it must be \"auto\", \"any\", \"tool\" or \"none\"");
        };
    }
}
