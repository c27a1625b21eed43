package dev.tandem.text.answer;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Texts as models write them, whole and cut at every character. */
class AnswerParserTest {
    private static final Set<String> TOOLS = Set.of("weather", "time");
    private static final AnswerFormat HERMES = format(ToolCallFormat.HERMES, ReasoningFormat.THINK);
    private static final AnswerFormat LLAMA =
            new AnswerFormat(Optional.of(ToolCallFormat.LLAMA3_JSON), Optional.empty());
    private static final AnswerFormat MISTRAL = new AnswerFormat(Optional.of(ToolCallFormat.MISTRAL), Optional.empty());
    private static final AnswerFormat GEMMA = format(ToolCallFormat.GEMMA, ReasoningFormat.GEMMA);
    private static final AnswerFormat HARMONY = format(ToolCallFormat.HARMONY, ReasoningFormat.HARMONY);

    /** @param parts {@code R[reasoning]}, {@code C[content]} and {@code name(arguments)}, in order */
    private record Case(AnswerFormat format, String promptEnd, String text, String parts) {
        Case(AnswerFormat format, String text, String parts) {
            this(format, "", text, parts);
        }

        @Override
        public String toString() {
            return format.calls().orElseThrow() + " " + text;
        }
    }

    private static AnswerFormat format(ToolCallFormat calls, ReasoningFormat reasoning) {
        return new AnswerFormat(Optional.of(calls), Optional.of(reasoning));
    }

    private static Stream<Case> hermes() {
        return Stream.of(
                new Case(HERMES, "Just text, with < and <tool. ", "C[Just text, with < and <tool. ]"),
                new Case(HERMES, "  indented\n", "C[  indented\n]"),
                new Case(
                        HERMES,
                        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich 🌧\"}}\n</tool_call>",
                        "weather({\"city\": \"Zürich 🌧\"})"),
                new Case(
                        HERMES,
                        "I look.\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>\n"
                                + "<tool_call>\n{\"name\": \"time\", \"arguments\": "
                                + "{\"a\": {\"b\": [1, {\"c\": 2}]}}}\n"
                                + "</tool_call>\n",
                        "C[I look.]weather({})time({\"a\": {\"b\": [1, {\"c\": 2}]}})"),
                new Case(
                        HERMES,
                        "<tool_call>{\"name\":\"weather\",\"arguments\":{\"q\":\"} </tool_call> \\\" \\\\ ]\"}}"
                                + "</tool_call>",
                        "weather({\"q\":\"} </tool_call> \\\" \\\\ ]\"})"),
                // the arguments first, as a string, as null, missing, and further keys
                new Case(
                        HERMES,
                        "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"time\"}</tool_call>",
                        "time({\"a\": 1})"),
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": \"{\\\"a\\\": \\\"\\u00e9\\\"}\"}</tool_call>",
                        "time({\"a\": \"é\"})"),
                new Case(HERMES, "<tool_call>{\"name\": \"time\", \"arguments\": null}</tool_call>", "time({})"),
                new Case(HERMES, "<tool_call>{\"name\": \"time\"}</tool_call>", "time({})"),
                new Case(
                        HERMES,
                        "<tool_call>{\"id\": 7, \"x\": [1], \"name\": \"time\", \"arguments\": {\"a\": -1.5e3}}"
                                + "</tool_call>",
                        "time({\"a\": -1.5e3})"),
                new Case(HERMES, "<tool_call>{\"name\": \"\\u0066\", \"arguments\": {}}</tool_call>", "f({})"),
                // without an end marker, and cut off
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": {}}<tool_call>{\"name\": \"weather\"}",
                        "time({})weather({})"),
                new Case(HERMES, "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": \"b", "time({\"a\": \"b)"),
                new Case(HERMES, "<tool_call>{\"name\": \"ti", "C[<tool_call>{\"name\": \"ti]"),
                // no call can be read
                new Case(HERMES, "<tool_call>weather</tool_call>", "C[<tool_call>weather</tool_call>]"),
                new Case(HERMES, "</tool_call> a", "C[</tool_call> a]"),
                new Case(
                        HERMES,
                        "<tool_call>{\"arguments\": {}}</tool_call>",
                        "C[<tool_call>{\"arguments\": {}}</tool_call>]"),
                new Case(
                        HERMES,
                        "<tool_call><tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>",
                        "C[<tool_call>]time({})"),
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": 5}</tool_call>",
                        "C[<tool_call>{\"name\": \"time\", \"arguments\": 5}</tool_call>]"),
                // broken arguments are passed as written; the next call is found
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": [1}</tool_call>\n"
                                + "<tool_call>{\"name\": \"weather\", \"arguments\": {}}</tool_call>",
                        "time({\"a\": [1})weather({})"),
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": \"1\n2\"}}</tool_call>done",
                        "time({\"a\": \"1\n2\"}})C[done]"),
                new Case(
                        HERMES,
                        "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": 1}</tool_call>",
                        "time({\"a\": 1})"));
    }

    private static String fenced(String text) {
        return "```json\n" + text + "\n```";
    }

    /** As Qwen2.5 Coder writes them. */
    private static Stream<Case> hermesWithoutMarkers() {
        String time = "{\"name\": \"time\", \"arguments\": {\"zone\": \"}```\"}}";
        String called = "time({\"zone\": \"}```\"})";
        String json = "{\"name\": \"Bob\", \"arguments\": {}}";
        return Stream.of(
                new Case(HERMES, fenced(time), called),
                new Case(HERMES, "I look.\n" + fenced(time) + "\n" + fenced(time), "C[I look.]" + called + called),
                new Case(HERMES, fenced(time + "\n" + time), called + called),
                new Case(HERMES, fenced("[" + time + ", " + time + "]") + "Done.", called + called + "C[Done.]"),
                new Case(HERMES, "```\n" + time + "\n```", called),
                new Case(HERMES, "{" + time + "}", called),
                new Case(HERMES, fenced("{ " + time + "\n}") + "Done.", called + "C[Done.]"),
                new Case(HERMES, "<tool_call>\n{" + time + "}\n</tool_call>{", called + "C[{]"),
                new Case(HERMES, "<tool_call>{" + time + "</tool_call>" + "a", called + "C[a]"),
                new Case(HERMES, time + "}", called),
                new Case(HERMES, "{{\"a\": 1}}", "C[{{\"a\": 1}}]"),
                new Case(HERMES, "{{" + time + "}}", "C[{{" + time + "}}]"),
                new Case(HERMES, "\n" + time + "\n" + time, called + called),
                new Case(HERMES, "<think>a</think>\n" + time, "R[a]" + called),
                new Case(HERMES, fenced(time) + "\n<tool_call>" + time + "</tool_call>", called + called),
                new Case(HERMES, "```json\n{\"name\": \"time\", \"arguments\": {\"a\": 1", "time({\"a\": 1)"),
                new Case(
                        HERMES,
                        "```json\n{\"name\": \"time\", \"arguments\": {\"a\": [1}\n```\nDone.",
                        "time({\"a\": [1}\n)C[Done.]"),
                // no tool is named, or the object has other keys
                new Case(HERMES, json, "C[" + json + "]"),
                new Case(HERMES, fenced(json) + "\n", "C[" + fenced(json) + "\n]"),
                new Case(HERMES, fenced("{\"a\": 1}"), "C[" + fenced("{\"a\": 1}") + "]"),
                new Case(HERMES, "It is " + time, "C[It is " + time + "]"),
                new Case(HERMES, "```java\nint[] a = {1};\n```\n", "C[```java\nint[] a = {1};\n```\n]"),
                new Case(HERMES, "{<tool_call>" + time + "</tool_call>", "C[{]" + called),
                new Case(HERMES, "``<tool_call>" + time + "</tool_call>", "C[``]" + called),
                new Case(HERMES, "```<tool_call>" + time + "</tool_call>", "C[```]" + called),
                new Case(HERMES, "```js", "C[```js]"),
                new Case(HERMES, "```", "C[```]"));
    }

    private static Stream<Case> reasoning() {
        return Stream.of(
                new Case(HERMES, "<think>\nI think.\n</think>\n\nYes. ", "R[I think.]C[Yes. ]"),
                new Case(HERMES, "\n<think>a\n\nb</think>", "R[a\n\nb]"),
                new Case(HERMES, "assistant\n<think>\n", "deep</think>\n\nYes", "R[deep]C[Yes]"),
                new Case(HERMES, "assistant\n<think>\n", "<think>deep</think>Yes", "R[deep]C[Yes]"),
                new Case(HERMES, "<think>\n\n</think>\n\n", "Yes </think> <think>", "C[Yes </think> <think>]"),
                new Case(HERMES, "<think>unfinished </thi", "R[unfinished </thi]"),
                new Case(
                        HERMES,
                        "<think>\n<tool_call>?\n</think>\n\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n"
                                + "</tool_call>",
                        "R[<tool_call>?]time({})"),
                new Case(HERMES, "<thi", "C[<thi]"),
                new Case(HERMES, "", ""),
                new Case(GEMMA, "<|channel>thought\nHm.\n<channel|>Yes.", "R[Hm.]C[Yes.]"));
    }

    private static Stream<Case> llama() {
        return Stream.of(
                new Case(LLAMA, "Hello {\"name\": \"time\"}", "C[Hello {\"name\": \"time\"}]"),
                new Case(LLAMA, "{\"name\": \"time\", \"parameters\": {\"zone\": \"}\"}}", "time({\"zone\": \"}\"})"),
                new Case(
                        LLAMA,
                        "<|python_tag|>{\"type\": \"function\", \"name\": \"time\", \"parameters\": {}}",
                        "time({})"),
                new Case(
                        LLAMA,
                        "{\"name\": \"time\", \"parameters\": {}}; "
                                + "{\"name\": \"weather\", \"parameters\": {\"c\": 1}}\n",
                        "time({})weather({\"c\": 1})"),
                new Case(LLAMA, "{\"name\": \"time\", \"parameters\": {}} Done.", "time({})C[Done.]"),
                // JSON that is an answer
                new Case(LLAMA, "{\"name\": \"Ada\", \"age\": 36}", "C[{\"name\": \"Ada\", \"age\": 36}]"),
                new Case(LLAMA, " {\"city\": {\"name\": 1}} ", "C[ {\"city\": {\"name\": 1}} ]"),
                new Case(LLAMA, "<|python_tag|>print(1)", "C[<|python_tag|>print(1)]"),
                new Case(LLAMA, "<|pyth", "C[<|pyth]"),
                new Case(LLAMA, "{\"name\": \"time\"", "C[{\"name\": \"time\"]"),
                new Case(LLAMA, "{\"name\": \"time\", \"parameters\": {\"a\": [}}", "time({\"a\": [}})"));
    }

    private static Stream<Case> mistral() {
        return Stream.of(
                new Case(
                        MISTRAL,
                        "[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {\"a\": \"]\"}, \"id\": \"abc\"},"
                                + " {\"name\": \"weather\", \"arguments\": {}}]",
                        "time({\"a\": \"]\"})weather({})"),
                new Case(
                        MISTRAL,
                        "Wait. [TOOL_CALLS]time{\"a\": {\"b\": 1}}[TOOL_CALLS]weather{}",
                        "C[Wait.]time({\"a\": {\"b\": 1}})weather({})"),
                new Case(MISTRAL, "[TOOL_CALLS]time[ARGS]{\"a\": 1}", "time({\"a\": 1})"),
                new Case(MISTRAL, "[TOOL_CALLS]time[CALL_ID]x1y2z3abc[ARGS]{\"a\": 1}", "time({\"a\": 1})"),
                new Case(MISTRAL, "[TOOL_CALLS]{\"name\": \"time\", \"arguments\": {}}", "time({})"),
                new Case(MISTRAL, "a [TOOL] b", "C[a [TOOL] b]"),
                new Case(MISTRAL, "[TOOL_CALLS] []", ""),
                new Case(MISTRAL, "[TOOL_CALLS] none", "C[[TOOL_CALLS] none]"),
                new Case(MISTRAL, "[TOOL_CALLS] a b {1}", "C[[TOOL_CALLS] a b {1}]"),
                new Case(MISTRAL, "[TOOL_CALLS] [{\"x\": 1}]", "C[[TOOL_CALLS] [{\"x\": 1}]]"),
                new Case(MISTRAL, "[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {}}, 5]", "time({})C[, 5]]"),
                new Case(MISTRAL, "[TOOL_CALLS]time{\"a\": (1]}", "time({\"a\": (1]})"));
    }

    private static Stream<Case> gemma() {
        return Stream.of(
                new Case(
                        GEMMA,
                        "<|tool_call>call:weather{city:<|\"|>Zürich, \"{x}\" \\ \n<|\"|>,days:3,"
                                + "ok:true,no:None}<tool_call|>",
                        "weather({\"city\":\"Zürich, \\\"{x}\\\" \\\\ \\n\",\"days\":3,\"ok\":true,\"no\":null})"),
                new Case(
                        GEMMA,
                        "<start_function_call>call:time{zone:<escape>Europe/Berlin<escape>,at:{h:1,m:[1,-2.5,]}}"
                                + "<end_function_call>",
                        "time({\"zone\":\"Europe/Berlin\",\"at\":{\"h\":1,\"m\":[1,-2.5]}})"),
                new Case(
                        GEMMA,
                        "Ok.<|tool_call>call:time{}<tool_call|><|tool_call>call:weather{<|\"|>a<|\"|>:[<|\"|>x<|\"|>,"
                                + "<|\"|><|\"|>],b:[]}<tool_call|>",
                        "C[Ok.]time({})weather({\"a\":[\"x\",\"\"],\"b\":[]})"),
                new Case(
                        GEMMA,
                        "<|tool_call>call:time{a:Paris, b: 01}<tool_call|>",
                        "time({\"a\":\"Paris\",\"b\":\"01\"})"),
                new Case(GEMMA, "<|tool_call>call:time{\"a\": \"b\"}<tool_call|>", "time({\"a\":\"b\"})"),
                new Case(GEMMA, "<|tool_call>call:time{a:<|\"|>b", "time({\"a\":\"b)"),
                new Case(GEMMA, "<|tool_call>call:time{a:1<tool_call|>x", "time({\"a\":)C[x]"),
                new Case(GEMMA, "<|tool_call>time{}<tool_call|>", "C[<|tool_call>time{}<tool_call|>]"),
                new Case(GEMMA, "<|tool_call>call:ti", "C[<|tool_call>call:ti]"));
    }

    private static Stream<Case> harmony() {
        return Stream.of(
                new Case(
                        HARMONY,
                        "<|channel|>analysis<|message|>Let me think.<|end|>"
                                + "<|start|>assistant<|channel|>final<|message|>"
                                + "Yes. ",
                        "R[Let me think.]C[Yes. ]"),
                new Case(
                        HARMONY,
                        "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary"
                                + " to=functions.weather <|constrain|>json<|message|>{\"city\": \"Zürich\"}<|call|>",
                        "R[Need it.]weather({\"city\": \"Zürich\"})"),
                new Case(HARMONY, " to=functions.time<|channel|>commentary json<|message|>{}<|call|>", "time({})"),
                new Case(
                        HARMONY,
                        "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary"
                                + " to=functions.time <|message|><|call|>",
                        "C[I look.]time({})"),
                // the marker that ends the call ends the answer too, and is no text then
                new Case(HARMONY, "<|channel|>commentary to=functions.time json<|message|>", "time({})"),
                new Case(HARMONY, "<|channel|>commentary to=functions.time json<|message|> \n<|call|>", "time({})"),
                new Case(
                        HARMONY,
                        "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b"
                                + "<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>",
                        "R[a\nb]C[c]"),
                new Case(HARMONY, "No format <|x", "C[No format <|x]"),
                new Case(HARMONY, "<|channel|>final<|message|>a <|message|> b", "C[a <|message|> b]"),
                new Case(HARMONY, "<|channel|>commentary to=functions.time<|message|>{\"a\": <|", "time({\"a\": <|)"));
    }

    /** Texts that OpenAI's own package renders, and the messages that it reads from them. */
    private static Stream<Case> gptOss() throws IOException {
        byte[] file = Files.readAllBytes(Path.of("src/test/resources/answers/harmony.json"));
        return new ObjectMapper()
                .readTree(file)
                .valueStream()
                .map(golden -> new Case(HARMONY, golden.path("text").asString(), shown(golden.path("messages"))));
    }

    private static String shown(JsonNode messages) {
        StringBuilder shown = new StringBuilder();
        String before = "";
        for (JsonNode message : messages) {
            String recipient = message.path("recipient").asString("");
            String channel = message.path("channel").asString();
            String content = message.path("content").asString();
            if (!recipient.isEmpty()) {
                shown.append(recipient.replace("functions.", ""))
                        .append('(')
                        .append(content)
                        .append(')');
            } else if (channel.equals("analysis")) {
                boolean goesOn = before.equals("analysis");
                shown.setLength(shown.length() - (goesOn ? 1 : 0));
                shown.append(goesOn ? "\n" : "R[").append(content).append(']');
            } else {
                shown.append(content.isEmpty() ? "" : "C[" + content + "]");
            }
            before = channel;
        }
        return shown.toString();
    }

    private static String shown(List<AnswerPart> parts) {
        StringBuilder shown = new StringBuilder();
        String open = "";
        for (AnswerPart part : parts) {
            String kind = part.getClass().getSimpleName();
            boolean goesOn = open.equals(kind) || open.equals("Call") && kind.equals("Arguments");
            if (!goesOn) {
                shown.append(end(open));
            }
            switch (part) {
                case AnswerPart.Reasoning reasoning ->
                    shown.append(goesOn ? "" : "R[").append(reasoning.text());
                case AnswerPart.Content content ->
                    shown.append(goesOn ? "" : "C[").append(content.text());
                case AnswerPart.Call call -> {
                    shown.append(open.equals("Call") ? ")" : "")
                            .append(call.name())
                            .append('(');
                }
                case AnswerPart.Arguments arguments -> shown.append(arguments.text());
            }
            open = kind;
        }
        return shown.append(end(open)).toString();
    }

    private static String end(String kind) {
        return switch (kind) {
            case "" -> "";
            case "Reasoning", "Content" -> "]";
            default -> ")";
        };
    }

    private static List<AnswerPart> parse(Case example, List<String> pieces) {
        AnswerParser parser = example.format().parser(TOOLS, true, example.promptEnd());
        List<AnswerPart> parts = new ArrayList<>();
        pieces.forEach(piece -> parts.addAll(parser.append(piece)));
        parts.addAll(parser.finish(true));
        return parts;
    }

    @ParameterizedTest
    @MethodSource({"hermes", "hermesWithoutMarkers", "reasoning", "llama", "mistral", "gemma", "harmony", "gptOss"})
    void partsDoNotDependOnWhereTheTextIsCut(Case example) {
        String text = example.text();
        assertThat(shown(parse(example, List.of(text)))).isEqualTo(example.parts());
        for (int cut = 1; cut < text.length(); cut++) {
            assertThat(shown(parse(example, List.of(text.substring(0, cut), text.substring(cut)))))
                    .as("cut at " + cut)
                    .isEqualTo(example.parts());
        }
        assertThat(shown(parse(example, List.of(text.split(""))))).isEqualTo(example.parts());
    }

    @Test
    void randomTextsOfMarkersAreTheSameInPieces() {
        long seed = new Random().nextLong();
        Random random = new Random(seed);
        List<String> words = List.of(
                "<tool_call>",
                "</tool_call>",
                "{\"name\": \"time\", ",
                "\"arguments\": ",
                "{\"a\": 1}",
                "}",
                "{",
                "]",
                "[TOOL_CALLS]",
                "[",
                "time",
                "<think>",
                "</think>",
                "<|channel|>",
                "analysis",
                "<|message|>",
                "<|end|>",
                "<|start|>",
                "to=functions.time",
                "<|tool_call>",
                "call:",
                "<|\"|>",
                "<tool_call|>",
                ":",
                ",",
                "\"",
                "\\",
                " ",
                "\n",
                "é");
        for (int round = 0; round < 2000; round++) {
            StringBuilder text = new StringBuilder();
            for (int i = random.nextInt(12); i >= 0; i--) {
                text.append(words.get(random.nextInt(words.size())));
            }
            for (AnswerFormat format : List.of(HERMES, LLAMA, MISTRAL, GEMMA, HARMONY)) {
                Case example = new Case(format, text.toString(), "");
                assertThat(shown(parse(example, List.of(text.toString().split("")))))
                        .as("seed " + seed + ", " + example)
                        .isEqualTo(shown(parse(example, List.of(text.toString()))));
            }
        }
    }

    @Test
    void contentAndArgumentsAreNotHeldBack() {
        AnswerParser parser = HERMES.parser(TOOLS, true, "");
        assertThat(parser.append("Hello")).containsExactly(new AnswerPart.Content("Hello"));
        assertThat(parser.append("<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": \"b"))
                .containsExactly(new AnswerPart.Call(0, "time"), new AnswerPart.Arguments(0, "{\"a\": \"b"));
        assertThat(parser.append("c")).containsExactly(new AnswerPart.Arguments(0, "c"));
        assertThat(parser.calls()).isEqualTo(1);
    }

    @Test
    void onlyTheFirstCallIsKeptWhenCallsAreNotParallel() {
        AnswerParser parser = HERMES.parser(TOOLS, false, "");
        String call = "<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": 1}}</tool_call>";
        List<AnswerPart> parts = new ArrayList<>(parser.append(call + call));
        parts.addAll(parser.finish(true));
        assertThat(shown(parts)).isEqualTo("time({\"a\": 1})");
        assertThat(parser.calls()).isEqualTo(1);
    }

    @Test
    void aCallThatIsCutBeforeItsArgumentsHasNone() {
        AnswerParser parser = HARMONY.parser(TOOLS, true, "<|start|>assistant");
        List<AnswerPart> parts = new ArrayList<>(parser.append(" to=functions.time<|channel|>commentary<|message|>"));
        parts.addAll(parser.finish(false));
        assertThat(parts).containsExactly(new AnswerPart.Call(0, "time"));
    }

    @Test
    void withoutToolsCallsAreContent() {
        String call = "<tool_call>{\"name\": \"time\"}</tool_call> ";
        AnswerParser parser = HERMES.parser(Set.of(), true, "");
        List<AnswerPart> parts = new ArrayList<>(parser.append(call));
        parts.addAll(parser.finish(true));
        assertThat(shown(parts)).isEqualTo("C[" + call + "]");
        AnswerParser harmony = HARMONY.parser(Set.of(), true, "");
        assertThat(harmony.append("<|channel|>commentary to=functions.x<|message|>{}"))
                .containsExactly(new AnswerPart.Content("{}"));
    }

    @Test
    void theParserSaysWhetherTheModelReasons() {
        AnswerParser parser = HERMES.parser(TOOLS, true, "<think>\n");
        assertThat(parser.isReasoning()).isTrue();
        parser.append("a</think>");
        assertThat(parser.isReasoning()).isFalse();
        AnswerParser harmony = HARMONY.parser(TOOLS, true, "<|start|>assistant");
        assertThat(harmony.isReasoning()).isFalse();
        harmony.append("<|channel|>analysis<|message|>");
        assertThat(harmony.isReasoning()).isTrue();
        harmony.append("x<|end|>");
        assertThat(harmony.isReasoning()).isFalse();
    }
}
