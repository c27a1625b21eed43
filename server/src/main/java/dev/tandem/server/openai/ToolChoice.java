package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import dev.tandem.text.ChatTemplate;
import java.util.List;
import java.util.Optional;

/** Which tools the model may or must call, as {@code tool_choice} of every API says. */
sealed interface ToolChoice {
    /** The model does not see the tools. */
    record None() implements ToolChoice {}

    /** The model decides. */
    record Auto() implements ToolChoice {}

    /**
     * The model must call one of the tools.
     *
     * @param field that demands it
     */
    record Required(String field) implements ToolChoice {}

    /**
     * The model must call this tool, once.
     *
     * @param field that demands it
     * @param nameField that has the name
     */
    record Named(String field, String nameField, String name) implements ToolChoice {}

    /**
     * The tools that an answer may call.
     *
     * @param tools of the request
     * @param parallel whether one answer may have several calls
     * @throws RequestException when the choice names no tool, or the model's calls cannot be read
     */
    default ToolUse use(List<ToolUse.Tool> tools, boolean parallel, ServedModel model) {
        return switch (this) {
            case None none -> ToolUse.NONE;
            case Auto auto ->
                tools.isEmpty()
                        ? ToolUse.NONE
                        : new ToolUse(formatted(tools, model), tools, parallel, Optional.empty());
            case Required required -> {
                requireTools(required.field(), tools);
                yield new ToolUse(formatted(tools, model), tools, parallel, Optional.of(required.field()));
            }
            case Named named -> {
                requireTools(named.field(), tools);
                ToolUse.Tool chosen = tools.stream()
                        .filter(tool -> tool.name().equals(named.name()))
                        .findFirst()
                        .orElseThrow(() -> RequestException.bad(
                                named.nameField(),
                                named.nameField() + " is \"" + Printable.of(named.name())
                                        + "\", which is none of the tools"));
                yield new ToolUse(formatted(List.of(chosen), model), tools, false, Optional.of(named.field()));
            }
        };
    }

    private static void requireTools(String field, List<ToolUse.Tool> tools) {
        if (tools.isEmpty()) {
            throw RequestException.bad(field, field + " demands a call, but there are no tools; send tools");
        }
    }

    /** The tools; those that the model would not see, or whose calls would come as text, are refused. */
    private static List<ToolUse.Tool> formatted(List<ToolUse.Tool> tools, ServedModel model) {
        boolean shown = model.template().filter(ToolChoice::showsTools).isPresent();
        if (shown && model.answers().calls().isPresent()) {
            return tools;
        }
        throw RequestException.bad(
                ToolList.FIELD,
                "tools are not supported: the chat template of " + model.name()
                        + (shown
                                ? " shows no format of calls that this server knows; leave tools out, forbid them"
                                        + " with tool_choice, or start the server with --tool-call-parser"
                                : " does not show tools to the model; leave tools out, or forbid them with"
                                        + " tool_choice"));
    }

    private static boolean showsTools(ChatTemplate template) {
        return template.mentions(ToolList.FIELD);
    }
}
