package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.SamplingException;
import dev.tandem.grammar.GrammarSource.Whitespace;
import dev.tandem.text.Tokenizer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Random tokens under a bitmask always make text that matches. */
class LlguidanceTest {
    private static final int OUTPUTS = 40;
    private static final int MAX_TOKENS = 2000;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final long seed = ThreadLocalRandom.current().nextLong();
    private final SplittableRandom random = new SplittableRandom(seed);
    private final LlguidanceCompiler compiler = Vocabularies.compiler();

    @AfterEach
    void close() {
        compiler.close();
    }

    private static GrammarSource schema(String json) {
        return GrammarSource.jsonSchema(JSON.readTree(json), Whitespace.ANY);
    }

    private interface Check {
        void check(String output);
    }

    private void outputs(GrammarSource source, Check check) {
        int ended = 0;
        try (GrammarCompiler.Compiled grammar = compiler.compile(source)) {
            for (int i = 0; i < OUTPUTS; i++) {
                String output = Vocabularies.random(grammar, random, MAX_TOKENS);
                if (!output.isEmpty()) {
                    ended++;
                    try {
                        check.check(output);
                    } catch (RuntimeException | AssertionError e) {
                        throw new AssertionError("seed " + seed + ", output " + output, e);
                    }
                }
            }
        }
        assertThat(ended).as("outputs that end, seed %d", seed).isPositive();
    }

    @Test
    void jsonMatchesItsSchema() {
        String schema = """
                {"type": "object", "additionalProperties": false, "required": ["name", "age", "tags"],
                 "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 3,
                 "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["a", "b", 7, null]}, "maxItems": 3},
                 "nested": {"$ref": "#/$defs/point"}},
                 "$defs": {"point": {"type": "object", "properties": {"x": {"const": 1.5}}, "required": ["x"],
                 "additionalProperties": false}}}""";
        outputs(schema(schema), output -> {
            JsonNode node = JSON.readTree(output);
            assertThat(node.path("name")
                            .asString()
                            .codePointCount(0, node.path("name").asString().length()))
                    .isLessThanOrEqualTo(8);
            assertThat(node.path("age").isIntegralNumber()).isTrue();
            assertThat(node.path("age").asInt()).isBetween(3, 120);
            assertThat(node.path("tags").size()).isLessThanOrEqualTo(3);
            node.path("tags").forEach(tag -> assertThat(tag.toString()).isIn("\"a\"", "\"b\"", "7", "null"));
            assertThat(node.propertyNames()).isSubsetOf("name", "age", "tags", "nested");
            if (node.has("nested")) {
                assertThat(node.path("nested").path("x").asDouble()).isEqualTo(1.5);
            }
        });
    }

    @Test
    void anyJsonObject() {
        outputs(
                GrammarSource.jsonObject(Whitespace.ANY),
                output -> assertThat(JSON.readTree(output).isObject()).isTrue());
    }

    @Test
    void regularExpressions() {
        String pattern = "[a-c]{2,5}-(x|yz)*[0-9]";
        outputs(GrammarSource.regex(pattern), output -> assertThat(output).matches(Pattern.compile(pattern)));
    }

    @Test
    void compactJsonHasNoOtherWhitespace() {
        GrammarSource source = GrammarSource.jsonSchema(
                JSON.readTree("{\"type\": \"array\", \"items\": {\"type\": \"boolean\"}, \"maxItems\": 2}"),
                Whitespace.NONE);
        outputs(source, output -> assertThat(output).matches("\\[((true|false)(, ?(true|false))?)?\\]"));
    }

    @Test
    void larkGrammars() {
        outputs(
                GrammarSource.lark("start: \"(\" start \")\" | NUMBER\nNUMBER: /[0-9]{1,3}/\n"),
                output -> assertThat(output).matches("\\(*[0-9]{1,3}\\)*"));
    }

    @Test
    void choices() {
        List<String> texts = List.of("yes", "no", "it's \"both\"\n", "näh");
        outputs(GrammarSource.choice(texts), output -> assertThat(output).isIn(texts));
    }

    @Test
    void choicesMayBeMany() {
        List<String> texts = IntStream.range(0, 5000).mapToObj(i -> "x" + i).toList();
        outputs(GrammarSource.choice(texts), output -> assertThat(output).isIn(texts));
    }

    private static GrammarSource calls(boolean several, Optional<GrammarSource.Lead> lead) {
        return GrammarSource.tagList(
                List.of(
                        new GrammarSource.Tag("<one>", JSON.readTree("{\"enum\": [1, 2]}"), "</one>"),
                        new GrammarSource.Tag("<two>", JSON.readTree("{\"type\": \"boolean\"}"), "</two>")),
                new GrammarSource.Row("", "\n", "", several),
                lead,
                Map.of());
    }

    @Test
    void tagListsAreTagsAlone() {
        String tag = "(<one>[12]</one>|<two>(true|false)</two>)";
        outputs(calls(true, Optional.empty()), output -> assertThat(output).matches(tag + "(\n" + tag + ")*\n?"));
        outputs(calls(false, Optional.empty()), output -> assertThat(output).matches(tag + "\n?"));
    }

    /** A token may have both the last character of a tag and a line break: it must not demand another tag. */
    @Test
    void aLineBreakMayFollowTheLastTag() {
        for (boolean several : List.of(true, false)) {
            GrammarSource tags = calls(several, Optional.empty());
            assertThat(accepts(tags, "<one>1</one>\n")).isTrue();
            assertThat(accepts(tags, "<one>1</one>\n\n")).isFalse();
            assertThat(accepts(tags, "<one>1</one>\n<one>1</one>\n")).isEqualTo(several);
        }
        GrammarSource list =
                GrammarSource.tagList(CALLS, new GrammarSource.Row("[", ", ", "]", true), Optional.empty(), Map.of());
        assertThat(accepts(list, "[{\"name\": \"f\", \"a\": 1}]")).isTrue();
        assertThat(accepts(list, "[{\"name\": \"f\", \"a\": 1}, ]"))
                .as("a separator that is text")
                .isFalse();
    }

    /** Some models were trained without a token that was added to their vocabulary. They spell it. */
    @Test
    void anAddedTokenIsNotForced() {
        GrammarSource source = GrammarSource.lark("start: \"name<call>name: true\" | \"name<call>name: 12\"\n");
        Tokenizer tokenizer = Vocabularies.TOKENIZER;
        int[] bitmask = new int[GrammarMatcher.words(Vocabularies.BYTES.size())];
        for (String way : List.of("<call>", "<", "<c")) {
            try (GrammarCompiler.Compiled grammar = compiler.compile(source)) {
                GrammarMatcher matcher = grammar.matcher();
                assertThat(matcher.acceptForced()).isEqualTo(tokenizer.encode("name", false));
                assertThat(matcher.acceptForced()).as("before <call>").isEmpty();
                matcher.fillBitmask(bitmask);
                assertThat(IntStream.range(0, Vocabularies.BYTES.size())
                                .filter(token -> Vocabularies.isAllowed(bitmask, token)))
                        .containsExactly((int) '<', Vocabularies.ADDED);
                for (int token : tokenizer.encode(way, false)) {
                    matcher.accept(token);
                }
                String rest = "<call>name: ".substring(way.length());
                assertThat(matcher.acceptForced()).as("after " + way).isEqualTo(tokenizer.encode(rest, false));
                matcher.close();
            }
        }
    }

    @Test
    void tagListsMayFollowFreeText() {
        GrammarSource begun = calls(false, Optional.of(new GrammarSource.Lead("", "</think>")));
        assertThat(accepts(begun, "I\nthink </thin> <one>3</one>.</think>\n\n<one>2</one>"))
                .isTrue();
        assertThat(accepts(begun, "no end <one>2</one>")).isFalse();
        assertThat(accepts(begun, "</think><one>3</one>")).isFalse();
        GrammarSource optional = calls(false, Optional.of(new GrammarSource.Lead("<think>", "</think>")));
        assertThat(accepts(optional, "<think>a</think><one>2</one>")).isTrue();
        assertThat(accepts(optional, "<one>2</one>")).isTrue();
        assertThat(accepts(optional, "a <one>2</one>")).isFalse();
    }

    @Test
    void jsonOrTagListsAreOneOfThem() {
        Map<String, Integer> special = Map.of("[CALLS]", Vocabularies.MARKER);
        String marker = Vocabularies.BYTES.token(Vocabularies.MARKER);
        for (Whitespace whitespace : Whitespace.values()) {
            GrammarSource source = GrammarSource.jsonOrTagList(
                    GrammarSource.jsonSchema(JSON.readTree("{\"enum\": [[1], 2]}"), whitespace),
                    List.of(new GrammarSource.Tag("[CALLS]f", JSON.readTree("{\"type\": \"boolean\"}"), "")),
                    new GrammarSource.Row("", "\n", "", true),
                    special);
            assertThat(accepts(source, "2")).isTrue();
            assertThat(accepts(source, "[1]")).isTrue();
            assertThat(accepts(source, marker + "ftrue")).isTrue();
            assertThat(accepts(source, marker + "ftrue\n" + marker + "ffalse")).isTrue();
            assertThat(accepts(source, "3")).isFalse();
            assertThat(accepts(source, "2" + marker + "ftrue")).isFalse();
            assertThat(accepts(source, marker + "f1")).isFalse();
            assertThat(accepts(source, "[CALLS]ftrue")).as("text is no token").isFalse();
        }
    }

    @Test
    void tagsMayHaveSpecialTokens() {
        Map<String, Integer> special = Map.of("[CALLS]", Vocabularies.MARKER, "</think>", Vocabularies.OTHER_MARKER);
        List<GrammarSource.Tag> tags =
                List.of(new GrammarSource.Tag("[CALLS]f", JSON.readTree("{\"enum\": [1, 2]}"), ""));
        Optional<GrammarSource.Lead> lead = Optional.of(new GrammarSource.Lead("", "</think>"));
        GrammarSource demanded = GrammarSource.tagList(tags, new GrammarSource.Row("", "", "", true), lead, special);
        String marker = Vocabularies.BYTES.token(Vocabularies.MARKER);
        String end = Vocabularies.BYTES.token(Vocabularies.OTHER_MARKER);
        assertThat(accepts(demanded, "hm" + end + "\n" + marker + "f1")).isTrue();
        assertThat(accepts(demanded, end + marker + "f1" + marker + "f2")).isTrue();
        assertThat(accepts(demanded, "hm" + end + marker + "f3")).isFalse();
        assertThat(accepts(demanded, "hm" + marker + "f1")).isFalse();
        assertThat(accepts(demanded, "hm</think>[CALLS]f1"))
                .as("text is no token")
                .isFalse();
        GrammarSource free = GrammarSource.structuralTags(tags, List.of("[CALLS]"), lead, special);
        assertThat(accepts(free, "hm" + end + "no call")).isTrue();
        assertThat(accepts(free, "hm" + end + "a" + marker + "f1")).isTrue();
        assertThat(accepts(free, "hm" + end + "a" + marker + "g1")).isFalse();
        GrammarSource row = GrammarSource.tagList(
                List.of(new GrammarSource.Tag("{\"a\": ", JSON.readTree("{\"const\": 1}"), "}")),
                new GrammarSource.Row("[CALLS] [", ", ", "]", true),
                Optional.empty(),
                special);
        assertThat(accepts(row, marker + " [{\"a\": 1}, {\"a\": 1}]")).isTrue();
        assertThat(accepts(row, marker + " [{\"a\": 1}, ]")).isFalse();
    }

    private static final List<GrammarSource.Tag> CALLS = List.of(
            new GrammarSource.Tag("{\"name\": \"f\", \"a\": ", JSON.readTree("{\"enum\": [1, 2]}"), "}"),
            new GrammarSource.Tag("{\"name\": \"g\", \"a\": ", JSON.readTree("{\"type\": \"boolean\"}"), "}"));

    @Test
    void textThatBeginsWithABraceIsARowOfTags() {
        for (Optional<GrammarSource.Lead> lead : List.of(
                Optional.<GrammarSource.Lead>empty(), Optional.of(new GrammarSource.Lead("<think>", "</think>")))) {
            GrammarSource source =
                    GrammarSource.textOrTagList(CALLS, new GrammarSource.Row("", "; ", "", true), lead, Map.of());
            assertThat(accepts(source, "{\"name\": \"f\", \"a\": 2}")).isTrue();
            assertThat(accepts(source, "{\"name\": \"f\", \"a\": 2}; {\"name\": \"g\", \"a\": true}"))
                    .isTrue();
            assertThat(accepts(source, "{\"name\": \"f\", \"a\": 3}")).isFalse();
            assertThat(accepts(source, " \n{\"name\": \"f\", \"a\": 3}")).isFalse();
            assertThat(accepts(source, "{}")).isFalse();
            assertThat(accepts(source, "{\"name\": \"f\", \"a\": 2} and text")).isFalse();
            assertThat(accepts(source, "No {} call.\n{\"name\": 1}")).isTrue();
            assertThat(accepts(source, " \u00e9")).isTrue();
            assertThat(accepts(source, "")).isTrue();
            assertThat(accepts(source, "<|python_tag|>{\"name\": \"f\", \"a\": 3}"))
                    .isFalse();
            assertThat(accepts(source, "<b>")).isEqualTo(lead.isEmpty());
            assertThat(accepts(source, "<think>{}</think> {\"name\": \"f\", \"a\": 1}"))
                    .isTrue();
            assertThat(accepts(source, "<think>{}</think> {\"name\": \"f\", \"a\": 3}"))
                    .as("without reasoning it is text")
                    .isEqualTo(lead.isEmpty());
        }
    }

    @Test
    void aTriggerMayBeginARowOfTags() {
        String marker = Vocabularies.BYTES.token(Vocabularies.MARKER);
        for (boolean isSpecial : List.of(true, false)) {
            GrammarSource source = GrammarSource.textWithTagLists(
                    CALLS,
                    new GrammarSource.Row("[CALLS] [", ", ", "]", true),
                    "[CALLS]",
                    Optional.empty(),
                    isSpecial ? Map.of("[CALLS]", Vocabularies.MARKER) : Map.of());
            String begin = isSpecial ? marker : "[CALLS]";
            String call = "{\"name\": \"f\", \"a\": 2}";
            assertThat(accepts(source, "no [call]")).isTrue();
            assertThat(accepts(source, begin + " [" + call + "]")).isTrue();
            assertThat(accepts(source, "Let me ask." + begin + " [" + call + ", " + call + "]"))
                    .isTrue();
            assertThat(accepts(source, begin + " [" + call)).as("an open row").isFalse();
            assertThat(accepts(source, begin + " [{\"name\": \"f\", \"a\": 3}]"))
                    .isFalse();
            assertThat(accepts(source, "text " + begin + "{}")).isFalse();
        }
    }

    @Test
    void tagsMayHaveFreeText() {
        Map<String, Integer> special = Map.of("[END]", Vocabularies.MARKER);
        GrammarSource source = GrammarSource.tagList(
                List.of(
                        new GrammarSource.Tag("final:", new GrammarSource.Content.Free(), ""),
                        new GrammarSource.Tag("call:", JSON.readTree("{\"const\": 1}"), "")),
                new GrammarSource.Row("", "", "", false),
                Optional.of(new GrammarSource.Lead("think:", "[END]")),
                special);
        String end = Vocabularies.BYTES.token(Vocabularies.MARKER);
        assertThat(accepts(source, "think:a\n" + end + "final:call:2\n")).isTrue();
        assertThat(accepts(source, "final:")).isTrue();
        assertThat(accepts(source, "call:1")).isTrue();
        assertThat(accepts(source, "call:2")).isFalse();
    }

    @Test
    void structuralTagsConstrainOnlyWhatFollowsATrigger() {
        GrammarSource source = GrammarSource.structuralTags(
                List.of(
                        new GrammarSource.Tag("<f=one>", JSON.readTree("{\"enum\": [1, 2]}"), "</f>"),
                        new GrammarSource.Tag("<f=two>", JSON.readTree("{\"type\": \"boolean\"}"), "</f>")),
                List.of("<f="));
        assertThat(accepts(source, "plain text\n")).isTrue();
        assertThat(accepts(source, "say <f=one>2</f> and <f=two>true</f>!")).isTrue();
        assertThat(accepts(source, "<f=one>3</f>")).isFalse();
        assertThat(accepts(source, "<f=three>")).isFalse();
        assertThat(accepts(source, "<f=two>true")).as("an open tag").isFalse();
        assertThatThrownBy(() -> GrammarSource.structuralTags(
                        List.of(new GrammarSource.Tag("[f]", JSON.readTree("{}"), "")), List.of("<f=")))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("none of the triggers");
    }

    /** Each token is asked of a matcher of its own, which has no bitmask. */
    @Test
    void aTokenIsAllowedIfTheBitmaskHasIt() {
        Map<String, Integer> special = Map.of("[CALLS]", Vocabularies.MARKER, "</think>", Vocabularies.OTHER_MARKER);
        List<GrammarSource> sources = List.of(
                GrammarSource.jsonObject(Whitespace.ANY),
                schema("{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"integer\"}}, "
                        + "\"required\": [\"name\"], \"additionalProperties\": false}"),
                GrammarSource.regex("[a-c]{2,5}-(nam|name|é)*[0-9]"),
                GrammarSource.choice(List.of("true", "trust", "no")),
                GrammarSource.choice(List.of("name<call>name", "name<call>12")),
                GrammarSource.tagList(
                        List.of(new GrammarSource.Tag("[CALLS]f", JSON.readTree("{\"enum\": [1, 2]}"), "")),
                        new GrammarSource.Row("", "", "", true),
                        Optional.of(new GrammarSource.Lead("", "</think>")),
                        special));
        int[] bitmask = new int[GrammarMatcher.words(Vocabularies.BYTES.size() + 99)];
        for (GrammarSource source : sources) {
            try (GrammarCompiler.Compiled grammar = compiler.compile(source)) {
                List<GrammarMatcher> matchers = IntStream.range(0, Vocabularies.BYTES.size() + 40)
                        .mapToObj(token -> grammar.matcher())
                        .toList();
                int chosen = 0;
                for (int length = 0;
                        length < 12 && chosen != Vocabularies.END && chosen != Vocabularies.OTHER_END;
                        length++) {
                    matchers.getFirst().fillBitmask(bitmask);
                    for (int token = 0; token < matchers.size(); token++) {
                        assertThat(matchers.get(token).allows(token))
                                .as("token %d at %d of %s, seed %d", token, length, source.text(), seed)
                                .isEqualTo(Vocabularies.isAllowed(bitmask, token));
                    }
                    chosen = Vocabularies.draw(bitmask, random);
                    for (GrammarMatcher matcher : matchers) {
                        matcher.accept(chosen);
                    }
                }
                matchers.forEach(GrammarMatcher::close);
            }
        }
    }

    private boolean accepts(GrammarSource source, String text) {
        try (GrammarCompiler.Compiled grammar = compiler.compile(source)) {
            return Vocabularies.accepts(grammar, text);
        }
    }

    @Test
    void unsupportedKeywordsAreRefused() {
        for (String schema : List.of(
                "{\"type\": \"array\", \"uniqueItems\": true}",
                "{\"not\": {\"type\": \"string\"}}",
                "{\"type\": \"array\", \"contains\": {\"const\": 1}}",
                "{\"type\": \"string\", \"format\": \"no such format\"}",
                "{\"type\": \"strin\"}",
                "{\"$ref\": \"https://example.org/schema\"}",
                "{\"x-guidance\": {\"lenient\": true}, \"not\": {}}",
                "[1]")) {
            assertThatThrownBy(() -> compiler.compile(schema(schema)))
                    .as(schema)
                    .isInstanceOf(GrammarException.class);
        }
        assertThatThrownBy(() -> compiler.compile(GrammarSource.regex("("))).isInstanceOf(GrammarException.class);
        assertThatThrownBy(() -> compiler.compile(GrammarSource.lark("start: missing")))
                .isInstanceOf(GrammarException.class);
    }

    @Test
    void largeGrammarsAreRefused() {
        assertThatThrownBy(
                        () -> compiler.compile(GrammarSource.regex("a".repeat(LlguidanceCompiler.MAX_CHARACTERS + 1))))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("the max is");
        assertThatThrownBy(() -> compiler.compile(schema("{\"$ref\": \"#\"}")))
                .as("no output is possible")
                .isInstanceOf(GrammarException.class);
        assertThatThrownBy(() -> schema("{\"anyOf\": [{\"type\": \"number\", \"multipleOf\": 1.00003}]}"))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("multipleOf is 1.00003");
        assertThat(schema("{\"multipleOf\": 1000000, \"const\": {\"multipleOf\": 100003}}")
                        .text())
                .contains("100003");
        assertThatThrownBy(() -> compiler.compile(GrammarSource.regex("a\0"))).isInstanceOf(GrammarException.class);
    }

    /** Its expressions multiply. */
    private static String slowSchema() {
        return IntStream.range(0, 20)
                .mapToObj(i -> "{\"anyOf\": [{\"type\": \"string\", \"pattern\": \"a" + i
                        + "\"}, {\"type\": \"integer\", \"multipleOf\": " + (i + 2) + "}]}")
                .collect(Collectors.joining(", ", "{\"allOf\": [", "]}"));
    }

    @ParameterizedTest
    @CsvSource({"2, 2, 1", "2, 0, 1", "4, 0, 2", "16, 0, 14", "16, 14, 4", "16, 16, 4", "64, 0, 16", "64, 62, 16"})
    void bitmasksAreComputedOnTheCoresThatTheExecutorLeaves(int cores, int busy, int threads) {
        assertThat(LlguidanceCompiler.bitmaskThreads(cores, busy)).isEqualTo(threads);
    }

    @Test
    void slowGrammarsAreGivenUp() {
        LlguidanceCompiler impatient = new LlguidanceCompiler(
                Vocabularies.library(), Vocabularies.TOKENIZER, Set.of(Vocabularies.END), 0, Duration.ofMillis(1));
        assertThatThrownBy(() -> impatient.compile(schema(slowSchema())))
                .isInstanceOf(GrammarException.class)
                .hasMessageContaining("does not compile within 1 ms");
        impatient.close();
    }

    /** On a stack of 1 MiB it would end the process. */
    @Test
    void theLargestObjectsDoNotOverflowTheStack() {
        String properties =
                IntStream.range(0, 2500).mapToObj(i -> "\"p" + i + "\": {}").collect(Collectors.joining(", "));
        String required =
                IntStream.range(0, 2500).mapToObj(i -> "\"p" + i + "\"").collect(Collectors.joining(", "));
        try (GrammarCompiler.Compiled grammar = compiler.compile(schema("{\"properties\": {" + properties
                + "}, \"required\": [" + required + "], \"type\": \"object\", \"additionalProperties\": false}"))) {
            assertThat(Vocabularies.random(grammar, random, 10)).isEmpty();
        }
    }

    @Test
    void aTokenThatDoesNotFitFailsTheMatcher() {
        try (GrammarCompiler.Compiled grammar = compiler.compile(GrammarSource.choice(List.of("ab", "ac")))) {
            GrammarMatcher matcher = grammar.matcher();
            assertThatThrownBy(() -> matcher.accept('z')).isInstanceOf(SamplingException.class);
            int[] bitmask = new int[GrammarMatcher.words(Vocabularies.BYTES.size())];
            matcher.fillBitmask(bitmask);
            assertThat(bitmask).containsOnly(-1);
            assertThatThrownBy(() -> matcher.accept('a')).isInstanceOf(SamplingException.class);
            matcher.close();
        }
    }

    @Test
    void matchersOutliveTheirGrammarAndMayBeClosedTwice() {
        GrammarMatcher matcher;
        try (GrammarCompiler.Compiled grammar = compiler.compile(GrammarSource.choice(List.of("ab", "ac")))) {
            matcher = grammar.matcher();
        }
        int[] bitmask = new int[GrammarMatcher.words(Vocabularies.BYTES.size()) + 1];
        bitmask[bitmask.length - 1] = -1;
        matcher.fillBitmask(bitmask);
        assertThat(Vocabularies.isAllowed(bitmask, 'a')).isTrue();
        assertThat(Vocabularies.isAllowed(bitmask, 'b')).isFalse();
        assertThat(bitmask[bitmask.length - 1])
                .as("tokens beyond the vocabulary")
                .isZero();
        matcher.accept('a');
        matcher.close();
        matcher.close();
        matcher.accept('z');
        matcher.fillBitmask(bitmask);
        assertThat(bitmask).containsOnly(-1);
    }
}
