package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.text.Vocabulary;
import dev.tandem.text.answer.ReasoningFormat;
import dev.tandem.text.answer.ToolCallFormat;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Makes the grammar of an answer with calls: they are demanded, or their arguments or other answers must match. */
final class CallGrammar {
    private static final String NAME = "NAME";
    private static final String TYPE = "type";
    /** What newer templates of Mistral put between a call's name and its arguments. */
    private static final String MISTRAL_ARGUMENTS = "[ARGS]";

    /** Between two messages of harmony. */
    private static final String HARMONY_NEXT = "<|start|>assistant";

    /**
     * How a format writes calls.
     *
     * @param row around and between the calls
     * @param begin of one call; {@link #NAME} stands for the tool's name
     * @param end of one call
     * @param quote the special token around strings; empty where arguments are JSON
     * @param trigger text that begins each call in free text, or the row of calls; empty when calls are the whole
     *     answer
     */
    private record Layout(GrammarSource.Row row, String begin, String end, String quote, String trigger) {
        static Layout of(String separator, String begin, String end, String trigger) {
            return new Layout(new GrammarSource.Row("", separator, "", true), begin, end, "", trigger);
        }

        /** Gemma's calls follow each other without a separator. */
        static Layout gemma(String begin, String end, String quote) {
            return new Layout(new GrammarSource.Row("", "", "", true), begin + "call:NAME", end, quote, begin);
        }

        GrammarSource.Tag tag(String name, JsonNode schema) {
            GrammarSource.Content arguments = quote.isEmpty()
                    ? new GrammarSource.Content.Schema(schema)
                    : new GrammarSource.Content.Gemma(schema, quote);
            return new GrammarSource.Tag(begin.replace(NAME, name), arguments, end);
        }
    }

    private static final Layout HERMES =
            Layout.of("\n", "<tool_call>\n{\"name\": \"NAME\", \"arguments\": ", "}\n</tool_call>", "<tool_call>");
    private static final Layout LLAMA = Layout.of("; ", "{\"name\": \"NAME\", \"parameters\": ", "}", "");
    private static final Layout MISTRAL = Layout.of("", "[TOOL_CALLS]NAME[ARGS]", "", "[TOOL_CALLS]");
    private static final Layout MISTRAL_LIST = new Layout(
            new GrammarSource.Row("[TOOL_CALLS] [", ", ", "]", true),
            "{\"name\": \"NAME\", \"arguments\": ",
            "}",
            "",
            "[TOOL_CALLS]");

    private static final Layout GEMMA = Layout.gemma("<|tool_call>", "<tool_call|>", "<|\"|>");
    private static final Layout FUNCTION_GEMMA =
            Layout.gemma("<start_function_call>", "<end_function_call>", "<escape>");
    /** A call ends the answer, so there is only one. */
    private static final Layout HARMONY = new Layout(
            new GrammarSource.Row("", "", "", false),
            "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>",
            "",
            "",
            "");
    /** What begins the message that harmony answers with. */
    private static final String HARMONY_FINAL = "<|channel|>final<|message|>";

    private CallGrammar() {}

    /**
     * The grammar; empty when the model may write what it likes.
     *
     * @param demanded what an answer without calls must match
     * @throws RequestException when a schema is refused
     */
    static Optional<GrammarFields.Constraint> of(
            Optional<GrammarFields.Constraint> demanded, ToolUse tools, AnswerReading reading, ServedModel model) {
        if (demanded.isEmpty()) {
            return of(tools, reading, model);
        }
        GrammarFields.Constraint json = demanded.get();
        AnswerReading.refuseTogether(
                json.field(),
                "tools that may be called, because it demands no JSON",
                !tools.tools().isEmpty() && !json.isJson());
        if (json.isJson() && reading.format().hasChannels()) {
            return Optional.of(constraint(
                    json.field(),
                    () -> messages(new GrammarSource.Content.Json(json.source()), tools, reading, model)));
        }
        return tools.tools().isEmpty() ? demanded : Optional.of(jsonOrCalls(json, tools, reading, model));
    }

    private static GrammarFields.Constraint constraint(String field, Supplier<GrammarSource> source) {
        try {
            return new GrammarFields.Constraint(field, source.get());
        } catch (GrammarException e) {
            throw GrammarFields.refused(field, e);
        }
    }

    /** Either JSON or calls, from the first token on. */
    private static GrammarFields.Constraint jsonOrCalls(
            GrammarFields.Constraint json, ToolUse tools, AnswerReading reading, ServedModel model) {
        Layout layout = layout(reading.format().calls().orElseThrow(), model);
        return constraint(
                json.field(),
                () -> GrammarSource.jsonOrTagList(
                        json.source(),
                        tags(layout, tools, false),
                        row(layout, tools),
                        special(reading, model.tokenizer().vocabulary())));
    }

    /** Harmony's messages: reasoning, if the model likes, and then the answer or a call. */
    private static GrammarSource messages(
            GrammarSource.Content answer, ToolUse tools, AnswerReading reading, ServedModel model) {
        List<GrammarSource.Tag> tags = new ArrayList<>(tags(HARMONY, tools, false));
        tags.add(new GrammarSource.Tag(HARMONY_FINAL, answer, ""));
        return GrammarSource.tagList(
                tags,
                HARMONY.row(),
                lead(reading),
                special(reading, model.tokenizer().vocabulary()));
    }

    private static List<GrammarSource.Tag> tags(Layout layout, ToolUse tools, boolean demanded) {
        return tools.tools().stream()
                .map(tool -> layout.tag(tool.name(), schema(tool, demanded)))
                .toList();
    }

    private static GrammarSource.Row row(Layout layout, ToolUse tools) {
        GrammarSource.Row row = layout.row();
        return new GrammarSource.Row(row.begin(), row.separator(), row.end(), row.several() && tools.parallel());
    }

    private static Optional<GrammarFields.Constraint> of(ToolUse tools, AnswerReading reading, ServedModel model) {
        return tools.constrainedBy().map(field -> {
            Layout layout = layout(reading.format().calls().orElseThrow(), model);
            boolean demanded = tools.demand().isPresent();
            if (!demanded && reading.format().hasChannels()) {
                return constraint(field, () -> messages(new GrammarSource.Content.Free(), tools, reading, model));
            }
            return constraint(field, () -> source(layout, tags(layout, tools, demanded), tools, reading, model));
        });
    }

    private static Layout layout(ToolCallFormat format, ServedModel model) {
        return switch (format) {
            case HERMES -> HERMES;
            case LLAMA3_JSON -> LLAMA;
            case MISTRAL -> mentions(model, MISTRAL_ARGUMENTS) ? MISTRAL : MISTRAL_LIST;
            case HARMONY -> HARMONY;
            case GEMMA -> mentions(model, FUNCTION_GEMMA.trigger()) ? FUNCTION_GEMMA : GEMMA;
        };
    }

    private static boolean mentions(ServedModel model, String text) {
        return model.template().filter(template -> template.mentions(text)).isPresent();
    }

    private static GrammarSource source(
            Layout layout, List<GrammarSource.Tag> tags, ToolUse tools, AnswerReading reading, ServedModel model) {
        Map<String, Integer> special = special(reading, model.tokenizer().vocabulary());
        if (tools.demand().isEmpty() && layout.trigger().isEmpty()) {
            return GrammarSource.textOrTagList(tags, row(layout, tools), lead(reading), special);
        }
        if (tools.demand().isEmpty()) {
            Optional<GrammarSource.Lead> marked =
                    lead(reading).filter(text -> special.keySet().stream().anyMatch(text.end()::startsWith));
            return layout.row().begin().isEmpty()
                    ? GrammarSource.structuralTags(tags, List.of(layout.trigger()), marked, special)
                    : GrammarSource.textWithTagLists(tags, row(layout, tools), layout.trigger(), marked, special);
        }
        return GrammarSource.tagList(tags, row(layout, tools), lead(reading), special);
    }

    /** Reasoning that the model may write before its calls. */
    private static Optional<GrammarSource.Lead> lead(AnswerReading reading) {
        return reading.format().reasoning().map(format -> {
            String end = format == ReasoningFormat.HARMONY ? format.end() + HARMONY_NEXT : format.end();
            return new GrammarSource.Lead(format.isOpenAfter(reading.promptEnd()) ? "" : format.begin(), end);
        });
    }

    /** The markers that are special tokens of the model, which no text of a grammar matches. */
    private static Map<String, Integer> special(AnswerReading reading, Vocabulary vocabulary) {
        Map<String, Integer> special = new HashMap<>();
        vocabulary.special().stream()
                .filter(id -> reading.markers().contains(vocabulary.token(id)))
                .forEach(id -> special.put(vocabulary.token(id), id));
        return special;
    }

    /** The schema of a call's arguments; any object where neither the request nor the tool asks for more. */
    private static JsonNode schema(ToolUse.Tool tool, boolean demanded) {
        return demanded || tool.strict().isPresent()
                ? object(tool)
                : JsonNodeFactory.instance.objectNode().put(TYPE, "object");
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
}
