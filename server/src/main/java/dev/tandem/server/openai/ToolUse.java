package dev.tandem.server.openai;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;

/**
 * The tools that an answer may call.
 *
 * @param tools that may be called
 * @param shown that the prompt lists; it may list more than may be called
 * @param parallel whether one answer may have several calls
 * @param demand the field that demands a call; empty when the model decides
 */
record ToolUse(List<Tool> tools, List<Tool> shown, boolean parallel, Optional<String> demand) {
    /** No tool may be called. */
    static final ToolUse NONE = new ToolUse(List.of(), List.of(), true, Optional.empty());

    /**
     * A tool.
     *
     * @param definition as {@code tools} of chat completions has it, which templates show
     * @param parameters JSON schema of its arguments
     * @param strict the field that asks for arguments of this schema alone, when it does
     */
    record Tool(String name, JsonNode definition, JsonNode parameters, Optional<String> strict) {}

    /** What the answer must match unless it calls a tool; nothing where a call is demanded. */
    Optional<GrammarFields.Constraint> insteadOfCalls(Optional<GrammarFields.Constraint> constraint) {
        return constraint.filter(answer -> demand.isEmpty());
    }

    Set<String> names() {
        return tools.stream().map(Tool::name).collect(Collectors.toUnmodifiableSet());
    }

    /** What the template shows of the tools. */
    List<JsonNode> definitions() {
        return shown.stream().map(Tool::definition).toList();
    }

    /** The field that asks for constrained calls: they are demanded, or their arguments must match a schema. */
    Optional<String> constrainedBy() {
        return demand.or(
                () -> tools.stream().flatMap(tool -> tool.strict().stream()).findFirst());
    }
}
