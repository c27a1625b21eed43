package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import dev.tandem.text.ChatTemplate;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Reads {@code tools}, {@code tool_choice} and {@code parallel_tool_calls}. */
final class ToolFields {
    private static final String TOOLS = "tools";
    private static final String CHOICE = "tool_choice";
    /** OpenAI's characters, and those of tools that clients take from MCP servers. */
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.:/-]{1,128}");

    private static final ObjectMapper JSON = new ObjectMapper();

    private ToolFields() {}

    /** Checks the tools, and reads which of them the model may or must call. */
    static ToolUse read(RequestFields fields, ServedModel model) {
        List<ToolUse.Tool> tools = tools(fields);
        boolean parallel = fields.flag("parallel_tool_calls", true);
        Optional<JsonNode> choice = fields.field(CHOICE);
        if (choice.isPresent() && choice.get().isObject()) {
            ToolUse.Tool named = named(choice.get(), tools);
            requireFormat(model);
            return new ToolUse(List.of(named), false, Optional.of(CHOICE));
        }
        String word = choice.map(node -> RequestFields.string(CHOICE, node)).orElse("auto");
        return switch (word) {
            case "none" -> ToolUse.NONE;
            case "auto" -> auto(tools, parallel, model);
            case "required" -> {
                requireTools(tools);
                requireFormat(model);
                yield new ToolUse(tools, parallel, Optional.of(CHOICE));
            }
            default ->
                throw RequestException.bad(
                        CHOICE,
                        "tool_choice is \"" + Printable.of(word) + "\"; it must be \"none\", \"auto\", \"required\", or"
                                + " {\"type\": \"function\", \"function\": {\"name\": ...}}");
        };
    }

    private static ToolUse auto(List<ToolUse.Tool> tools, boolean parallel, ServedModel model) {
        if (tools.isEmpty()) {
            return ToolUse.NONE;
        }
        requireFormat(model);
        return new ToolUse(tools, parallel, Optional.empty());
    }

    private static void requireTools(List<ToolUse.Tool> tools) {
        if (tools.isEmpty()) {
            throw RequestException.bad(CHOICE, "tool_choice demands a call, but there are no tools; send tools");
        }
    }

    /** Tools that the model would not see, or whose calls would come as text, are refused. */
    private static void requireFormat(ServedModel model) {
        boolean shown = model.template().filter(ToolFields::showsTools).isPresent();
        if (shown && model.answers().calls().isPresent()) {
            return;
        }
        throw RequestException.bad(
                TOOLS,
                "tools are not supported: the chat template of " + model.name()
                        + (shown
                                ? " shows no format of calls that this server knows; leave tools out, set tool_choice"
                                        + " to \"none\", or start the server with --tool-call-parser"
                                : " does not show tools to the model; leave tools out, or set tool_choice to"
                                        + " \"none\""));
    }

    private static boolean showsTools(ChatTemplate template) {
        return template.mentions(TOOLS);
    }

    private static ToolUse.Tool named(JsonNode choice, List<ToolUse.Tool> tools) {
        String type = choice.path("type").asString("");
        if (!type.equals("function")) {
            throw RequestException.bad(
                    "tool_choice.type",
                    "tool_choice.type is " + RequestFields.shown(choice.path("type")) + "; it must be \"function\"");
        }
        String field = "tool_choice.function.name";
        String name = RequestFields.string(field, choice.path("function").path("name"));
        requireTools(tools);
        return tools.stream()
                .filter(tool -> tool.name().equals(name))
                .findFirst()
                .orElseThrow(() -> RequestException.bad(
                        field, field + " is \"" + Printable.of(name) + "\", which is none of the tools"));
    }

    private static List<ToolUse.Tool> tools(RequestFields fields) {
        Optional<JsonNode> list = fields.field(TOOLS);
        if (list.isEmpty()) {
            return List.of();
        }
        if (!list.get().isArray()) {
            throw RequestFields.wrong(TOOLS, list.get(), "a list of tools");
        }
        Map<String, ToolUse.Tool> byName = new LinkedHashMap<>();
        for (int i = 0; i < list.get().size(); i++) {
            ToolUse.Tool tool = tool(TOOLS + "[" + i + "]", list.get().get(i));
            if (byName.put(tool.name(), tool) != null) {
                String field = TOOLS + "[" + i + "].function.name";
                throw RequestException.bad(
                        field, field + " is \"" + tool.name() + "\", which another tool has; rename one");
            }
        }
        return new ArrayList<>(byName.values());
    }

    private static ToolUse.Tool tool(String field, JsonNode node) {
        if (!node.isObject()) {
            throw RequestFields.wrong(field, node, "an object with type \"function\"");
        }
        if (!node.path("type").asString("").equals("function")) {
            throw RequestException.bad(
                    field + ".type",
                    field + ".type is " + RequestFields.shown(node.path("type")) + "; it must be \"function\"");
        }
        JsonNode function = node.path("function");
        if (!function.isObject()) {
            throw RequestFields.wrong(field + ".function", function, "an object with a name");
        }
        String nameField = field + ".function.name";
        String name = RequestFields.string(nameField, function.path("name"));
        if (!NAME.matcher(name).matches()) {
            throw RequestException.bad(
                    nameField,
                    nameField + " is \"" + Printable.of(name)
                            + "\"; it must have 1 to 128 letters, digits, and characters of \"_.:/-\"");
        }
        return new ToolUse.Tool(name, parameters(field, function), strict(field, function));
    }

    private static JsonNode parameters(String field, JsonNode function) {
        JsonNode parameters = function.path("parameters");
        if (parameters.isMissingNode() || parameters.isNull()) {
            return JSON.createObjectNode();
        }
        if (!parameters.isObject()) {
            throw RequestFields.wrong(field + ".function.parameters", parameters, "a JSON schema");
        }
        return parameters;
    }

    /** The field that asks for arguments of this schema alone, when it does. */
    private static Optional<String> strict(String field, JsonNode function) {
        JsonNode strict = function.path("strict");
        String name = field + ".function.strict";
        return !strict.isMissingNode() && !strict.isNull() && RequestFields.truth(name, strict)
                ? Optional.of(name)
                : Optional.empty();
    }
}
