package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.text.Vocabulary;
import dev.tandem.text.answer.ToolCallFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Makes the grammar of an answer whose calls are demanded, or must have arguments of their schema. */
final class CallGrammar {
    private static final String HERMES_BEGIN = "<tool_call>";
    /** Formats that can be constrained, with what stands between two calls. */
    private static final Map<ToolCallFormat, String> SEPARATORS =
            Map.of(ToolCallFormat.HERMES, "\n", ToolCallFormat.LLAMA3_JSON, "; ");

    private static final String TYPE = "type";

    private CallGrammar() {}

    /**
     * The grammar; empty when the model may write what it likes.
     *
     * @throws RequestException when the model's format cannot be constrained, or a schema is refused
     */
    static Optional<GrammarFields.Constraint> of(ToolUse tools, AnswerReading reading, ServedModel model) {
        return tools.constrainedBy().map(field -> {
            ToolCallFormat format = reading.format().calls().orElseThrow();
            requireConstrainable(
                    field, tools, format, reading, model.tokenizer().vocabulary());
            List<GrammarSource.Tag> tags = tools.tools().stream()
                    .map(tool -> tag(format, tool, tools.demand().isPresent()))
                    .toList();
            try {
                return new GrammarFields.Constraint(field, source(format, tags, tools, reading));
            } catch (GrammarException e) {
                throw GrammarFields.refused(field, e);
            }
        });
    }

    private static GrammarSource source(
            ToolCallFormat format, List<GrammarSource.Tag> tags, ToolUse tools, AnswerReading reading) {
        if (tools.demand().isEmpty()) {
            return GrammarSource.structuralTags(tags, List.of(HERMES_BEGIN));
        }
        Optional<GrammarSource.Lead> lead = reading.format()
                .reasoning()
                .map(reasoning -> reasoning.isOpenAfter(reading.promptEnd())
                        ? new GrammarSource.Lead("", reasoning.end())
                        : new GrammarSource.Lead(reasoning.begin(), reasoning.end()));
        return GrammarSource.tagList(tags, Objects.requireNonNull(SEPARATORS.get(format)), tools.parallel(), lead);
    }

    private static GrammarSource.Tag tag(ToolCallFormat format, ToolUse.Tool tool, boolean demanded) {
        boolean checked = demanded || tool.strict().isPresent();
        JsonNode schema =
                checked ? object(tool) : JsonNodeFactory.instance.objectNode().put(TYPE, "object");
        return format == ToolCallFormat.HERMES
                ? new GrammarSource.Tag(
                        HERMES_BEGIN + "\n{\"name\": \"" + tool.name() + "\", \"arguments\": ",
                        schema,
                        "}\n</tool_call>")
                : new GrammarSource.Tag("{\"name\": \"" + tool.name() + "\", \"parameters\": ", schema, "}");
    }

    /** The schema, which may leave out what arguments always are. */
    private static JsonNode object(ToolUse.Tool tool) {
        ObjectNode schema = tool.parameters().deepCopy().asObject();
        if (!schema.has(TYPE)) {
            schema.put(TYPE, "object");
        }
        if (!schema.path(TYPE).asString("").equals("object")) {
            throw RequestException.bad(
                    "tools",
                    "the parameters of the tool " + tool.name() + " have the type "
                            + RequestFields.shown(schema.path(TYPE)) + "; it must be \"object\"");
        }
        return schema;
    }

    /** A grammar sees text alone: markers that are special tokens, and arguments that are no JSON, are beyond it. */
    private static void requireConstrainable(
            String field, ToolUse tools, ToolCallFormat format, AnswerReading reading, Vocabulary vocabulary) {
        Predicate<String> isSpecial = text -> vocabulary.special().stream()
                .anyMatch(id -> vocabulary.token(id).equals(text));
        // nothing begins Llama's calls, so free text and calls cannot be told apart
        boolean known =
                SEPARATORS.containsKey(format) && (tools.demand().isPresent() || format != ToolCallFormat.LLAMA3_JSON);
        boolean text = reading.format().reasoning().stream()
                        .flatMap(reasoning -> Stream.of(reasoning.begin(), reasoning.end()))
                        .noneMatch(isSpecial)
                && (format != ToolCallFormat.HERMES || !isSpecial.test(HERMES_BEGIN));
        if (!known || !text) {
            throw RequestException.of(
                    RequestException.Category.NOT_IMPLEMENTED,
                    field + " needs calls that are constrained, which this server cannot do for the model's format"
                            + " of calls; set tool_choice to \"auto\" and leave out strict");
        }
    }
}
