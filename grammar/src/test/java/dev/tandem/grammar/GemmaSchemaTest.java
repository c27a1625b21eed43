package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.text.answer.AnswerFormat;
import dev.tandem.text.answer.AnswerPart;
import dev.tandem.text.answer.ToolCallFormat;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Random tokens under a bitmask make calls in Gemma's notation, whose arguments match their schema once parsed. */
class GemmaSchemaTest {
    private static final int OUTPUTS = 60;
    private static final int MAX_TOKENS = 2000;
    private static final String BEGIN = "<|tool_call>";
    private static final String END = "<tool_call|>";
    private static final String QUOTE = "<|\"|>";
    /** The spelling of the special token that stands for {@link #QUOTE}. */
    private static final String TOKEN = Vocabularies.BYTES.token(Vocabularies.MARKER);

    private static final ObjectMapper JSON = new ObjectMapper();

    private final long seed = ThreadLocalRandom.current().nextLong();
    private final SplittableRandom random = new SplittableRandom(seed);
    private final LlguidanceCompiler compiler = Vocabularies.compiler();

    @AfterEach
    void close() {
        compiler.close();
    }

    /** Calls of f, with arguments of the schema. */
    private static GrammarSource calls(String schema) {
        return GrammarSource.tagList(
                List.of(new GrammarSource.Tag(
                        BEGIN + "call:f", new GrammarSource.Content.Gemma(JSON.readTree(schema), QUOTE), END)),
                new GrammarSource.Row("", "", "", true),
                Optional.empty(),
                Map.of(QUOTE, Vocabularies.MARKER));
    }

    /** The arguments of the calls in an output. */
    private static List<JsonNode> arguments(String output) {
        var parser =
                new AnswerFormat(Optional.of(ToolCallFormat.GEMMA), Optional.empty()).parser(Set.of("f"), true, "");
        List<StringBuilder> arguments = new ArrayList<>();
        List<AnswerPart> parts = new ArrayList<>(parser.append(output.replace(TOKEN, QUOTE)));
        parts.addAll(parser.finish(true));
        for (AnswerPart part : parts) {
            switch (part) {
                case AnswerPart.Call call -> arguments.add(new StringBuilder());
                case AnswerPart.Arguments piece -> arguments.getLast().append(piece.text());
                case AnswerPart.Content content -> throw new AssertionError(content);
                case AnswerPart.Reasoning reasoning -> throw new AssertionError(reasoning);
            }
        }
        return arguments.stream().map(text -> JSON.readTree(text.toString())).toList();
    }

    private void outputs(String schema, Consumer<JsonNode> check) {
        int ended = 0;
        try (GrammarCompiler.Compiled grammar = compiler.compile(calls(schema))) {
            for (int i = 0; i < OUTPUTS; i++) {
                String output = Vocabularies.random(grammar, random, MAX_TOKENS);
                if (output.isEmpty()) {
                    continue;
                }
                ended++;
                try {
                    assertThat(arguments(output)).isNotEmpty().allSatisfy(check);
                } catch (RuntimeException | AssertionError e) {
                    throw new AssertionError("seed " + seed + ", output " + output, e);
                }
            }
        }
        assertThat(ended).as("outputs that end, seed %d", seed).isPositive();
    }

    private boolean accepts(String schema, String arguments) {
        try (GrammarCompiler.Compiled grammar = compiler.compile(calls(schema))) {
            return Vocabularies.accepts(grammar, BEGIN + "call:f" + arguments.replace(QUOTE, TOKEN) + END);
        }
    }

    @Test
    void parsedArgumentsMatchTheSchema() {
        String schema = """
                {"type": "object", "required": ["name", "age", "tags"], "properties": {
                 "name": {"type": "string", "minLength": 2, "maxLength": 8, "description": "x"},
                 "age": {"type": "integer", "minimum": 3, "maximum": 120},
                 "Zone": {"enum": ["a", "b\\"c", 7, null, [true, {"k": "v"}]]},
                 "tags": {"type": "array", "items": {"type": ["boolean", "null"]}, "minItems": 1, "maxItems": 3},
                 "at": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]}},
                 "$defs": {"point": {"type": "object", "properties": {"x": {"const": 1.5}, "next": {"$ref":
                 "#/$defs/point"}}, "required": ["x"], "additionalProperties": false}}}""";
        outputs(schema, node -> {
            assertThat(node.propertyNames()).isSubsetOf("name", "age", "tags", "Zone", "at");
            assertThat(node.propertyNames()).contains("name", "age", "tags");
            String name = node.path("name").asString();
            assertThat(name.codePointCount(0, name.length())).isBetween(2, 8);
            assertThat(node.path("age").isIntegralNumber()).isTrue();
            assertThat(node.path("age").asInt()).isBetween(3, 120);
            assertThat(node.path("tags").size()).isBetween(1, 3);
            node.path("tags").forEach(tag -> assertThat(tag.toString()).isIn("true", "false", "null"));
            if (node.has("Zone")) {
                assertThat(node.path("Zone").toString())
                        .isIn("\"a\"", "\"b\\\"c\"", "7", "null", "[true,{\"k\":\"v\"}]");
            }
            for (JsonNode at = node.path("at"); at.isObject(); at = at.path("next")) {
                assertThat(at.path("x").asDouble()).isEqualTo(1.5);
            }
            if (node.path("at").isNumber()) {
                assertThat(node.path("at").asDouble()).isGreaterThan(0).isLessThanOrEqualTo(1);
            }
        });
    }

    @Test
    void objectsWithoutPropertiesAreFree() {
        outputs("{\"type\": \"object\"}", node -> assertThat(node.isObject()).isTrue());
        outputs(
                "{\"additionalProperties\": {\"type\": \"integer\"}}",
                node -> node.forEach(
                        value -> assertThat(value.isIntegralNumber()).isTrue()));
        outputs(
                "{\"type\": \"object\", \"additionalProperties\": false}",
                node -> assertThat(node.toString()).isEqualTo("{}"));
    }

    @Test
    void propertiesComeSortedAndMayBeLeftOut() {
        String schema = "{\"properties\": {\"c\": {\"const\": 3}, \"B\": {\"const\": 2}, \"a\": {\"const\": 1}},"
                + " \"required\": [\"B\"]}";
        for (String accepted : List.of("{B:2}", "{a:1,B:2}", "{B:2,c:3}", "{a:1,B:2,c:3}")) {
            assertThat(accepts(schema, accepted)).as(accepted).isTrue();
        }
        for (String refused : List.of("{}", "{a:1}", "{B:2,a:1}", "{,B:2}", "{B:2,}", "{B:2,c:3,d:4}", "{B: 2}")) {
            assertThat(accepts(schema, refused)).as(refused).isFalse();
        }
        String optional = "{\"properties\": {\"a\": {\"const\": 1}, \"b\": {\"const\": 2}}}";
        for (String accepted : List.of("{}", "{a:1}", "{b:2}", "{a:1,b:2}")) {
            assertThat(accepts(optional, accepted)).as(accepted).isTrue();
        }
    }

    @Test
    void stringsStandBetweenTheToken() {
        String schema = "{\"properties\": {\"s\": {\"type\": \"string\"}}, \"required\": [\"s\"]}";
        assertThat(accepts(schema, "{s:" + QUOTE + "a \"b\" }, {\n" + QUOTE + "}"))
                .isTrue();
        assertThat(accepts(schema, "{s:" + QUOTE + QUOTE + "}")).isTrue();
        assertThat(accepts(schema, "{s:\"a\"}")).isFalse();
        assertThat(accepts(schema, "{s:" + QUOTE + "a" + "}")).isFalse();
        assertThatThrownBy(() -> calls("{\"properties\": {\"a\": {\"const\": \"<|\\\"|>\"}}}"))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("has the marker");
        assertThatThrownBy(() -> GrammarSource.tagList(
                        List.of(new GrammarSource.Tag(
                                "f", new GrammarSource.Content.Gemma(JSON.readTree(schema), QUOTE), "")),
                        new GrammarSource.Row("", "", "", true),
                        Optional.empty(),
                        Map.of()))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("no special token");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"properties\": {\"a\": {\"not\": {}}}} | the keyword not is not supported",
                "{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"x\"}}} | the keyword pattern is not",
                "{\"properties\": {\"a\": {\"enum\": [1], \"minimum\": 2}}} | minimum is not supported beside enum",
                "{\"properties\": {\"a\": {\"enum\": [1], \"type\": \"string\"}}} | the keyword enum allows no value",
                "{\"properties\": {\"a\": {\"type\": \"strin\"}}} | the type 'strin'",
                "{\"properties\": {\"a\": {\"$ref\": \"https://example.org\"}}} | leads to no part of the schema",
                "{\"properties\": {\"a\": false}} | a schema is false",
                "{\"properties\": {\"a:b\": {}}} | the property 'a:b' has a character",
                "{\"properties\": {\" a\": {}}} | the property ' a' has a character",
                "{\"required\": [\"a\"], \"additionalProperties\": false} | 'a' is required and not allowed",
                "{\"properties\": {\"a\": {\"minItems\": 2, \"maxItems\": 1}}} | minItems is 2, more than maxItems",
                "{\"properties\": {\"a\": {\"maxLength\": -1}}} | maxLength is -1; it must be",
                "{\"properties\": {\"a\": {\"multipleOf\": 1.00003}}} | multipleOf is 1.00003"
            })
    void whatTheNotationCannotHaveIsRefused(String schema, String reason) {
        assertThatThrownBy(() -> calls(schema))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining(reason);
    }
}
