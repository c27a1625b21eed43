package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.GrammarSource.Whitespace;
import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;

/**
 * Reads what the output must match: {@code response_format}, {@code structured_outputs} and the older {@code guided_*},
 * and the fields of the other APIs. A request has at most one of them.
 */
final class GrammarFields {
    private static final String FORMAT = "response_format";
    private static final String TEXT = "text";
    private static final String OUTPUT = "output_config";
    private static final String OLD_OUTPUT = "output_format";
    private static final String STRUCTURED = "structured_outputs";
    private static final Set<String> KINDS =
            Set.of("json", "json_object", "regex", "choice", "grammar", "structural_tag");
    /** Longer reasons quote the grammar. */
    private static final int MAX_REASON = 400;

    /**
     * A grammar that a request asks for.
     *
     * @param field of the request that has it, which errors name
     */
    record Constraint(String field, GrammarSource source) {
        boolean isJson() {
            return source.syntax() == GrammarSource.Syntax.JSON_SCHEMA;
        }
    }

    private final RequestParser parser;
    private final List<Constraint> found = new ArrayList<>();

    private GrammarFields(RequestParser parser) {
        this.parser = parser;
    }

    /**
     * The request's grammar, not yet compiled; empty when every output will do.
     *
     * @throws RequestException when a field is malformed, or there are several
     */
    static Optional<Constraint> read(RequestFields fields, RequestParser parser) {
        GrammarFields reader = new GrammarFields(parser);
        fields.field(FORMAT).ifPresent(reader::format);
        fields.field(STRUCTURED).ifPresent(reader::structured);
        for (String kind : List.of("json", "regex", "choice", "grammar")) {
            String field = "guided_" + kind;
            fields.field(field).ifPresent(value -> reader.add(field, kind, value, Whitespace.ANY));
        }
        return reader.only();
    }

    private Optional<Constraint> only() {
        if (found.size() > 1) {
            String other = found.get(1).field();
            throw RequestException.bad(
                    other,
                    "the output can match one grammar only; leave out " + other + " or "
                            + found.getFirst().field());
        }
        return found.stream().findFirst();
    }

    /**
     * The grammar of {@code text.format} of the Responses API, not yet compiled; empty when every output will do.
     *
     * @throws RequestException when the field is malformed
     */
    static Optional<Constraint> readText(RequestFields fields, RequestParser parser) {
        GrammarFields reader = new GrammarFields(parser);
        fields.field(TEXT).ifPresent(reader::text);
        return reader.found.stream().findFirst();
    }

    /**
     * The grammar of {@code output_config.format}, or of its older name {@code output_format}, of the Messages API, not
     * yet compiled; empty when every output will do.
     *
     * @throws RequestException when a field is malformed, or both have a format
     */
    static Optional<Constraint> readOutput(RequestFields fields, RequestParser parser) {
        GrammarFields reader = new GrammarFields(parser);
        fields.field(OUTPUT).ifPresent(reader::output);
        fields.field(OLD_OUTPUT).ifPresent(format -> reader.outputFormat(OLD_OUTPUT, format));
        return reader.only();
    }

    private void output(JsonNode output) {
        requireObject(OUTPUT, output);
        requireNames(OUTPUT, output, Set.of("format", "effort"));
        requireNeutral(OUTPUT + ".effort", output.path("effort"), "high", "set thinking");
        JsonNode format = output.path("format");
        if (!format.isMissingNode() && !format.isNull()) {
            outputFormat(OUTPUT + ".format", format);
        }
    }

    private void outputFormat(String name, JsonNode format) {
        requireObject(name, format);
        if (!format.path("type").asString("").equals("json_schema")) {
            throw RequestException.bad(
                    name + ".type",
                    name + ".type is " + RequestFields.shown(format.path("type")) + "; it must be \"json_schema\"");
        }
        schema(name, format, Set.of("type", "schema"));
    }

    private static void requireNeutral(String name, JsonNode value, String neutral, String remedy) {
        if (!value.isMissingNode() && !value.isNull() && !value.asString("").equals(neutral)) {
            throw RequestException.bad(name, name + " is " + RequestFields.shown(value) + "; " + remedy);
        }
    }

    private void text(JsonNode text) {
        requireObject(TEXT, text);
        requireNames(TEXT, text, Set.of("format", "verbosity"));
        requireNeutral(TEXT + ".verbosity", text.path("verbosity"), "medium", "ask for it in a message");
        JsonNode format = text.path("format");
        if (format.isMissingNode() || format.isNull()) {
            return;
        }
        String name = TEXT + ".format";
        requireObject(name, format);
        String type = format.path("type").asString("");
        switch (type) {
            case "text" -> requireNames(name, format, Set.of("type"));
            case "json_object" -> {
                requireNames(name, format, Set.of("type"));
                add(name, () -> GrammarSource.jsonObject(Whitespace.ANY));
            }
            case "json_schema" -> schema(name, format, Set.of("type", "name", "description", "schema", "strict"));
            default ->
                throw RequestException.bad(
                        name,
                        name + " has the type '" + Printable.of(type)
                                + "'; there are text, json_object and json_schema");
        }
    }

    /** A JSON schema and what clients send with it. */
    private void schema(String name, JsonNode node, Set<String> names) {
        requireObject(name, node);
        requireNames(name, node, names);
        if (!node.path("strict").isMissingNode() && !node.path("strict").isNull()) {
            RequestFields.truth(name + ".strict", node.path("strict"));
        }
        requireObject(name + ".schema", node.path("schema"));
        String field = name.startsWith(FORMAT) ? FORMAT : name;
        add(field, () -> GrammarSource.jsonSchema(node.path("schema"), Whitespace.ANY));
    }

    /** @throws RequestException when the grammar's text is refused */
    private void add(String field, Supplier<GrammarSource> source) {
        try {
            found.add(new Constraint(field, source.get()));
        } catch (GrammarException e) {
            throw refused(field, e);
        }
    }

    static RequestException refused(String field, GrammarException e) {
        String reason = Printable.oneLine(String.valueOf(e.getMessage()));
        return RequestException.bad(
                field,
                field + " is refused: "
                        + (reason.length() > MAX_REASON ? reason.substring(0, MAX_REASON) + '…' : reason));
    }

    private void format(JsonNode format) {
        requireObject(FORMAT, format);
        String type = format.path("type").asString("");
        switch (type) {
            case "text" -> requireNames(FORMAT, format, Set.of("type"));
            case "json_object" -> {
                requireNames(FORMAT, format, Set.of("type"));
                add(FORMAT, () -> GrammarSource.jsonObject(Whitespace.ANY));
            }
            case "json_schema" -> {
                requireNames(FORMAT, format, Set.of("type", "json_schema"));
                schema(
                        FORMAT + ".json_schema",
                        format.path("json_schema"),
                        Set.of("name", "description", "schema", "strict"));
            }
            case "structural_tag" -> tags(FORMAT, format);
            default ->
                throw RequestException.bad(
                        FORMAT,
                        FORMAT + " has the type '" + Printable.of(type)
                                + "'; there are text, json_object, json_schema and structural_tag");
        }
    }

    private void structured(JsonNode outputs) {
        requireObject(STRUCTURED, outputs);
        List<String> kinds = new ArrayList<>();
        Whitespace whitespace = Whitespace.ANY;
        for (var entry : outputs.properties()) {
            String name = entry.getKey();
            JsonNode value = entry.getValue();
            if (value.isNull() || value.isBoolean() && !value.asBoolean()) {
                continue; // an option that is off
            }
            if (KINDS.contains(name)) {
                kinds.add(name);
            } else if (name.equals("disable_any_whitespace")) {
                whitespace = RequestFields.truth(STRUCTURED + "." + name, value) ? Whitespace.NONE : Whitespace.ANY;
            } else {
                String shown = STRUCTURED + "." + Printable.of(name);
                throw RequestException.bad(
                        shown,
                        shown + " is not supported; there are "
                                + String.join(", ", KINDS.stream().sorted().toList()) + " and disable_any_whitespace");
            }
        }
        if (kinds.size() != 1) {
            throw RequestException.bad(
                    STRUCTURED,
                    STRUCTURED + " must have exactly one of "
                            + String.join(", ", KINDS.stream().sorted().toList()));
        }
        add(STRUCTURED, kinds.getFirst(), outputs.path(kinds.getFirst()), whitespace);
    }

    private void add(String field, String kind, JsonNode value, Whitespace whitespace) {
        String name = field.equals(STRUCTURED) ? field + "." + kind : field;
        switch (kind) {
            case "json" -> {
                JsonNode schema = value.isString() ? json(name, value.asString()) : value;
                requireObject(name, schema);
                add(field, () -> GrammarSource.jsonSchema(schema, whitespace));
            }
            case "json_object" -> {
                RequestFields.truth(name, value);
                add(field, () -> GrammarSource.jsonObject(whitespace));
            }
            case "regex" -> add(field, () -> GrammarSource.regex(RequestFields.string(name, value)));
            case "choice" -> add(field, () -> GrammarSource.choice(texts(name, value)));
            case "grammar" -> add(field, () -> GrammarSource.lark(RequestFields.string(name, value)));
            case "structural_tag" -> tags(field, value.isString() ? json(name, value.asString()) : value);
            default -> throw new IllegalArgumentException(kind);
        }
    }

    /** vLLM's structural tags: structures with begin, schema and end, and the triggers that begin them. */
    private void tags(String field, JsonNode node) {
        requireObject(field, node);
        requireNames(field, node, Set.of("type", "structures", "triggers"));
        List<GrammarSource.Tag> tags = new ArrayList<>();
        for (JsonNode tag : list(field + ".structures", node.path("structures"))) {
            String name = field + ".structures";
            requireObject(name, tag);
            requireNames(name, tag, Set.of("begin", "schema", "end"));
            requireObject(name + ".schema", tag.path("schema"));
            tags.add(new GrammarSource.Tag(
                    RequestFields.string(name + ".begin", tag.path("begin")),
                    tag.path("schema"),
                    RequestFields.string(name + ".end", tag.path("end"))));
        }
        List<String> triggers = texts(field + ".triggers", node.path("triggers"));
        add(field, () -> GrammarSource.structuralTags(tags, triggers));
    }

    private JsonNode json(String name, String text) {
        try {
            return parser.parse(text);
        } catch (JacksonException e) {
            throw RequestException.bad(name, name + " is not valid JSON; send an object, or its text");
        }
    }

    private static JsonNode list(String name, JsonNode node) {
        if (!node.isArray() || node.isEmpty()) {
            throw RequestFields.wrong(name, node, "a list that is not empty");
        }
        return node;
    }

    private static List<String> texts(String name, JsonNode node) {
        List<String> texts = new ArrayList<>();
        for (JsonNode text : list(name, node)) {
            if (RequestFields.string(name, text).isEmpty()) {
                throw RequestException.bad(name, name + " has an empty text; leave it out");
            }
            texts.add(text.asString());
        }
        return texts;
    }

    private static void requireObject(String name, JsonNode node) {
        if (!node.isObject()) {
            throw RequestFields.wrong(name, node, "an object");
        }
    }

    private static void requireNames(String name, JsonNode node, Set<String> allowed) {
        node.propertyNames().stream()
                .filter(given -> !allowed.contains(given))
                .findFirst()
                .ifPresent(given -> {
                    String shown = name + "." + Printable.of(given);
                    throw RequestException.bad(
                            shown,
                            shown + " is not supported here; there are "
                                    + String.join(
                                            ", ", allowed.stream().sorted().toList()));
                });
    }
}
