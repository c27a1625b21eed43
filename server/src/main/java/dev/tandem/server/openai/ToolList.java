package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Reads {@code tools}, which each API writes in its own layout. */
enum ToolList {
    /** {@code {"type": "function", "function": {"name", "parameters"}}}. */
    CHAT("function", ".function", "parameters"),
    /** {@code {"type": "function", "name", "parameters"}}. */
    RESPONSES("function", "", "parameters"),
    /** {@code {"name", "input_schema"}}; the type may be left out. */
    MESSAGES("custom", "", "input_schema");

    static final String FIELD = "tools";
    private static final String TYPE = "type";
    /** OpenAI's characters, and those of tools that clients take from MCP servers. */
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.:/-]{1,128}");

    private static final ObjectMapper JSON = new ObjectMapper();

    /** The only type of tools: the client calls them. */
    private final String type;
    /** Where a tool has its function. */
    private final String function;
    /** The name of the arguments' schema. */
    private final String schema;

    ToolList(String type, String function, String schema) {
        this.type = type;
        this.function = function;
        this.schema = schema;
    }

    /** @throws RequestException when a tool is malformed, or two have one name */
    List<ToolUse.Tool> read(RequestFields fields) {
        Optional<JsonNode> list = fields.field(FIELD);
        if (list.isEmpty()) {
            return List.of();
        }
        if (!list.get().isArray()) {
            throw RequestFields.wrong(FIELD, list.get(), "a list of tools");
        }
        Map<String, ToolUse.Tool> byName = new LinkedHashMap<>();
        for (int i = 0; i < list.get().size(); i++) {
            String field = FIELD + "[" + i + "]";
            ToolUse.Tool tool = tool(field, list.get().get(i));
            if (byName.put(tool.name(), tool) != null) {
                String name = field + function + ".name";
                throw RequestException.bad(
                        name, name + " is \"" + tool.name() + "\", which another tool has; rename one");
            }
        }
        return new ArrayList<>(byName.values());
    }

    private ToolUse.Tool tool(String field, JsonNode node) {
        if (!node.isObject()) {
            throw RequestFields.wrong(field, node, "an object of the type \"" + type + "\"");
        }
        JsonNode given = node.path(TYPE);
        boolean mayBeMissing = this == MESSAGES && (given.isMissingNode() || given.isNull());
        if (!mayBeMissing && !given.asString("").equals(type)) {
            throw RequestException.bad(
                    field + ".type",
                    field + ".type is " + RequestFields.shown(given) + "; it must be \"" + type
                            + "\", because the server itself calls no tools");
        }
        JsonNode inner = function.isEmpty() ? node : node.path("function");
        if (!inner.isObject()) {
            throw RequestFields.wrong(field + function, inner, "an object with a name");
        }
        String name = name(field + function + ".name", inner);
        JsonNode parameters = parameters(field + function + "." + schema, inner);
        return new ToolUse.Tool(
                name,
                this == CHAT ? node : definition(inner, parameters),
                parameters,
                strict(field + function + ".strict", inner));
    }

    private static String name(String field, JsonNode function) {
        String name = RequestFields.string(field, function.path("name"));
        if (!NAME.matcher(name).matches()) {
            throw RequestException.bad(
                    field,
                    field + " is \"" + Printable.of(name)
                            + "\"; it must have 1 to 128 letters, digits, and characters of \"_.:/-\"");
        }
        return name;
    }

    private JsonNode parameters(String field, JsonNode function) {
        JsonNode parameters = function.path(schema);
        if (parameters.isMissingNode() || parameters.isNull()) {
            return JSON.createObjectNode();
        }
        if (!parameters.isObject()) {
            throw RequestFields.wrong(field, parameters, "a JSON schema");
        }
        return parameters;
    }

    /** The field that asks for arguments of this schema alone, when it does. */
    private static Optional<String> strict(String field, JsonNode function) {
        JsonNode strict = function.path("strict");
        return !strict.isMissingNode() && !strict.isNull() && RequestFields.truth(field, strict)
                ? Optional.of(field)
                : Optional.empty();
    }

    private static JsonNode definition(JsonNode function, JsonNode parameters) {
        ObjectNode definition = JSON.createObjectNode().put(TYPE, "function");
        ObjectNode inner = definition
                .putObject("function")
                .put("name", function.path("name").asString());
        if (function.path("description").isString()) {
            inner.put("description", function.path("description").asString());
        }
        inner.set("parameters", parameters);
        return definition;
    }
}
