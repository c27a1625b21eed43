package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.openai.ApiKeys;
import dev.tandem.text.answer.ToolCallFormat;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Tool calls over HTTP, with a model that writes them by a script. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ToolCallsTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String BODY = "{% for m in messages %}{{ m.role }}:{{ m.content }}"
            + "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
            + "{{ ' for ' ~ m.tool_call_id if m.tool_call_id is defined else '' }}\n"
            + "{% endfor %}{% for t in tools or [] %}{{ t.function.name }} {% endfor %}";
    private static final String HERMES = BODY + "{# <tool_call> #}";
    private static final String WEATHER =
            "{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\"}}}";
    private static final String TIME = "{\"type\": \"function\", \"function\": {\"name\": \"time\"}}";
    private static final String TOOLS = "\"tools\": [" + WEATHER + ", " + TIME + "]";
    private static final String TWO_CALLS = "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
            + "{\"city\": \"Zürich\", \"note\": \"{\\\"a\\\": \\\"}\\\"}\"}}\n</tool_call>\n"
            + "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

    private static ScriptedServer hermes(String answer) {
        return new ScriptedServer(HERMES, prompt -> answer);
    }

    private static String name(JsonNode call) {
        return call.at("/function/name").asString();
    }

    @Test
    void tokenizeChecksToolsAsChatDoes() throws IOException {
        String hi = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], ";
        try (ScriptedServer server = hermes("")) {
            int shown = server.post("/tokenize", hi + TOOLS + "}")
                    .json()
                    .path("count")
                    .asInt();
            int hidden = server.post("/tokenize", hi + TOOLS + ", \"tool_choice\": \"none\"}")
                    .json()
                    .path("count")
                    .asInt();
            assertThat(shown - hidden).isEqualTo("weather time ".length());
            for (String path : List.of("/tokenize", "/v1/chat/completions")) {
                RawClient.Answer answer =
                        server.post(path, hi + "\"tools\": [{\"type\": \"function\", \"function\": {}}]}");
                assertThat(answer.status()).as(path).isEqualTo(400);
                assertThat(answer.parameter()).as(path).isEqualTo("tools[0].function.name");
            }
        }
    }

    @Test
    void callsComeInTheMessage() throws IOException {
        try (ScriptedServer server = hermes(TWO_CALLS)) {
            JsonNode choice = server.choice(TOOLS);
            assertThat(choice.path("finish_reason").asString()).isEqualTo("tool_calls");
            JsonNode message = choice.path("message");
            assertThat(message.path("content").asString()).isEqualTo("I look.");
            JsonNode calls = message.path("tool_calls");
            assertThat(calls.size()).isEqualTo(2);
            assertThat(name(calls.get(0))).isEqualTo("weather");
            assertThat(calls.get(0).path("type").asString()).isEqualTo("function");
            JsonNode arguments = JSON.readTree(calls.at("/0/function/arguments").asString());
            assertThat(arguments.path("city").asString()).isEqualTo("Zürich");
            assertThat(arguments.path("note").asString()).isEqualTo("{\"a\": \"}\"}");
            assertThat(calls.at("/1/function/arguments").asString()).isEqualTo("{}");
            assertThat(calls.at("/0/id").asString()).startsWith("call_").hasSize(29);
            assertThat(calls.at("/1/id").asString())
                    .isNotEqualTo(calls.at("/0/id").asString());
            assertThat(server.scripted.seen.getFirst()).endsWith("weather time ");
        }
    }

    @Test
    void anAnswerOfCallsAloneHasNoContent() throws IOException {
        try (ScriptedServer server = hermes("<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>")) {
            JsonNode message = server.choice(TOOLS).path("message");
            assertThat(message.path("content").isNull()).isTrue();
            assertThat(message.path("tool_calls").size()).isEqualTo(1);
        }
    }

    /** What clients build of a stream: id, type and name once per call, arguments joined by the index. */
    private record Joined(String content, List<String> ids, List<String> names, List<StringBuilder> arguments) {}

    private static Joined join(List<JsonNode> chunks) {
        StringBuilder content = new StringBuilder();
        Joined joined = new Joined("", new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (JsonNode chunk : chunks) {
            JsonNode delta = chunk.at("/choices/0/delta");
            content.append(delta.path("content").asString(""));
            for (JsonNode call : delta.path("tool_calls")) {
                int index = call.path("index").asInt();
                if (call.has("id")) {
                    assertThat(index).as("the next call").isEqualTo(joined.ids().size());
                    assertThat(call.path("id").asString()).isNotEmpty();
                    assertThat(call.path("type").asString()).isEqualTo("function");
                    joined.ids().add(call.path("id").asString());
                    joined.names().add(name(call));
                    joined.arguments().add(new StringBuilder());
                } else {
                    assertThat(call.has("type")).isFalse();
                    assertThat(call.path("function").has("name")).isFalse();
                }
                joined.arguments()
                        .get(index)
                        .append(call.at("/function/arguments").asString());
            }
        }
        return new Joined(content.toString(), joined.ids(), joined.names(), joined.arguments());
    }

    @Test
    void aStreamGivesTheSameCallsInPieces() throws IOException {
        try (ScriptedServer server = hermes(TWO_CALLS)) {
            List<JsonNode> chunks = server.chunks(TOOLS);
            Joined joined = join(chunks);
            JsonNode whole = server.choice(TOOLS).path("message");
            assertThat(joined.content()).isEqualTo(whole.path("content").asString());
            assertThat(joined.names()).containsExactly("weather", "time");
            assertThat(joined.ids()).doesNotHaveDuplicates();
            for (int i = 0; i < 2; i++) {
                assertThat(joined.arguments().get(i).toString())
                        .isEqualTo(whole.at("/tool_calls/" + i + "/function/arguments")
                                .asString());
            }
            long pieces = chunks.stream()
                    .filter(chunk ->
                            chunk.at("/choices/0/delta/tool_calls/0/index").asInt(-1) == 0)
                    .count();
            assertThat(pieces).as("chunks of the first call").isGreaterThan(10);
            assertThat(chunks.getLast().at("/choices/0/finish_reason").asString())
                    .isEqualTo("tool_calls");
        }
    }

    private static Stream<List<String>> families() {
        return Stream.of(
                List.of(
                        "{# [TOOL_CALLS] #}",
                        "[TOOL_CALLS] [{\"name\": \"time\", \"arguments\": {\"a\": 1}}]",
                        "{\"a\": 1}"),
                List.of("{# [TOOL_CALLS] #}", "[TOOL_CALLS]time{\"a\": 1}", "{\"a\": 1}"),
                List.of(
                        "{# <|start_header_id|> \"parameters\" #}",
                        "{\"name\": \"time\", \"parameters\": {\"a\": 1}}",
                        "{\"a\": 1}"),
                List.of("{# <|tool_call> #}", "<|tool_call>call:time{a:<|\"|>b<|\"|>}<tool_call|>", "{\"a\":\"b\"}"),
                List.of(
                        "{# <|channel|> #}",
                        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"
                                + " to=functions.time<|message|>{\"a\": 1}<|call|>",
                        "{\"a\": 1}"));
    }

    /** The markers of these families are special tokens, which the answer's text leaves out otherwise. */
    @ParameterizedTest
    @MethodSource("families")
    void eachFamilyIsParsed(List<String> family) throws IOException {
        try (ScriptedServer server = new ScriptedServer(BODY + family.get(0), prompt -> family.get(1))) {
            JsonNode choice = server.choice(TOOLS);
            JsonNode calls = choice.at("/message/tool_calls");
            assertThat(calls.size()).as(choice.toString()).isEqualTo(1);
            assertThat(name(calls.get(0))).isEqualTo("time");
            assertThat(calls.at("/0/function/arguments").asString()).isEqualTo(family.get(2));
            assertThat(choice.at("/message/content").isNull()).isTrue();
        }
    }

    @Test
    void mistralsIdsHaveNineCharacters() throws IOException {
        try (ScriptedServer server = new ScriptedServer(BODY + "{# [TOOL_CALLS] #}", prompt -> "[TOOL_CALLS]time{}")) {
            assertThat(server.choice(TOOLS).at("/message/tool_calls/0/id").asString())
                    .matches("[a-z0-9]{9}");
        }
    }

    @Test
    void aToolLoopEndsWithAnAnswer() throws IOException {
        try (ScriptedServer server = new ScriptedServer(
                HERMES,
                prompt -> prompt.contains("tool:21 degrees for ")
                        ? "It is 21 degrees."
                        : "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}</tool_call>")) {
            JsonNode message = server.choice(TOOLS).path("message");
            String id = message.at("/tool_calls/0/id").asString();
            String conversation = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, " + message
                    + ", {\"role\": \"tool\", \"tool_call_id\": \"" + id + "\", \"content\": \"21 degrees\"}], " + TOOLS
                    + "}";
            JsonNode last =
                    server.post("/v1/chat/completions", conversation).json().at("/choices/0");
            assertThat(last.at("/message/content").asString()).isEqualTo("It is 21 degrees.");
            assertThat(last.path("finish_reason").asString()).isEqualTo("stop");
            assertThat(last.path("message").has("tool_calls")).isFalse();
            assertThat(server.scripted.seen.getLast())
                    .contains("[weather {\"city\": \"Bern\"}]")
                    .contains("tool:21 degrees for " + id);
        }
    }

    @Test
    void aMalformedCallIsContent() throws IOException {
        String text = "<tool_call>weather in Bern</tool_call>";
        try (ScriptedServer server = hermes(text)) {
            JsonNode choice = server.choice(TOOLS);
            assertThat(choice.at("/message/content").asString()).isEqualTo(text);
            assertThat(choice.path("finish_reason").asString()).isEqualTo("stop");
        }
    }

    @Test
    void aCallThatIsCutOffEndsByLength() throws IOException {
        try (ScriptedServer server = hermes(TWO_CALLS)) {
            JsonNode choice = server.choice(TOOLS + ", \"max_tokens\": 80");
            assertThat(choice.path("finish_reason").asString()).isEqualTo("length");
            assertThat(choice.at("/message/tool_calls/0/function/arguments").asString())
                    .startsWith("{\"city\": ");
        }
    }

    @Test
    void withoutParallelCallsOnlyTheFirstIsKept() throws IOException {
        try (ScriptedServer server = hermes(TWO_CALLS)) {
            JsonNode message =
                    server.choice(TOOLS + ", \"parallel_tool_calls\": false").path("message");
            assertThat(message.path("tool_calls").size()).isEqualTo(1);
            assertThat(join(server.chunks(TOOLS + ", \"parallel_tool_calls\": false"))
                            .names())
                    .containsExactly("weather");
        }
    }

    @Test
    void withToolChoiceNoneTheModelSeesNoTools() throws IOException {
        try (ScriptedServer server = hermes(TWO_CALLS)) {
            JsonNode choice = server.choice(TOOLS + ", \"tool_choice\": \"none\"");
            assertThat(choice.at("/message/content").asString()).isEqualTo(TWO_CALLS);
            assertThat(choice.path("finish_reason").asString()).isEqualTo("stop");
            assertThat(server.scripted.seen.getFirst()).doesNotContain("weather");
        }
    }

    private static final String REQUIRED = TOOLS + ", \"tool_choice\": \"required\"";

    @Test
    void demandedCallsAreConstrained() throws IOException {
        try (ScriptedServer server = hermes("<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>")) {
            JsonNode choice = server.choice(REQUIRED);
            assertThat(choice.path("finish_reason").asString()).isEqualTo("tool_calls");
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("\\\"weather\\\", \\\"arguments\\\": \" %json {\"type\":\"object\"}")
                    .contains("\\\"time\\\"")
                    .contains("tag (\"\\n\" tag)*");
            server.choice(REQUIRED + ", \"parallel_tool_calls\": false");
            assertThat(server.grammars.compiled.getLast().text()).doesNotContain("tag (");
            server.choice(TOOLS + ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"time\"}}");
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("time")
                    .doesNotContain("weather");
            server.grammars.awaitClosed();
        }
    }

    @Test
    void aDemandedCallThatIsMissingIsAnError() throws IOException {
        try (ScriptedServer server = hermes("No.")) {
            RawClient.Answer whole = server.ask(REQUIRED);
            assertThat(whole.status()).isEqualTo(500);
            assertThat(whole.error()).contains("without the call");
            assertThat(server.chunks(REQUIRED).getLast().at("/error/message").asString())
                    .contains("without the call");
            assertThat(server.choice(REQUIRED + ", \"max_tokens\": 1")
                            .path("finish_reason")
                            .asString())
                    .isEqualTo("length");
        }
    }

    private static final String SCHEMA =
            "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"const\": 5}}}";

    @Test
    void anAnswerMayBeJsonOrCalls() throws IOException {
        String both = TOOLS + ", " + SCHEMA;
        for (String answer : List.of("5", "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>")) {
            try (ScriptedServer server = hermes(answer)) {
                JsonNode message = server.choice(both).path("message");
                assertThat(message.path("content").asString("")).isEqualTo(answer.equals("5") ? "5" : "");
                assertThat(message.path("tool_calls").size()).isEqualTo(answer.equals("5") ? 0 : 1);
                assertThat(server.grammars.compiled.getLast().text())
                        .startsWith("start: %json {\"const\":5} | tags")
                        .contains("\\\"weather\\\"", "\\\"time\\\"");
                server.choice(both + ", \"tool_choice\": \"none\"");
                assertThat(server.grammars.compiled.getLast().text()).isEqualTo("{\"const\":5}");
                server.grammars.awaitClosed();
            }
        }
    }

    @Test
    void aDemandedCallComesInsteadOfJson() throws IOException {
        try (ScriptedServer server = hermes("<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>")) {
            server.choice(REQUIRED + ", " + SCHEMA);
            assertThat(server.grammars.compiled.getLast().text())
                    .startsWith("start: tag")
                    .doesNotContain("const");
        }
    }

    private static final String HARMONY = BODY + "{# <|channel|> <|message|> <|call|> #}{{ reasoning_effort }}";
    private static final String ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";

    @Test
    void inChannelsTheModelReasonsBeforeJsonOrACall() throws IOException {
        for (String fields : List.of(TOOLS + ", " + SCHEMA, SCHEMA)) {
            try (ScriptedServer server =
                    new ScriptedServer(HARMONY, prompt -> ANALYSIS + "<|channel|>final<|message|>5")) {
                JsonNode message = server.choice(fields + ", \"reasoning_effort\": \"high\"")
                        .path("message");
                assertThat(message.path("content").asString()).isEqualTo("5");
                assertThat(message.path("reasoning_content").asString()).isEqualTo("Hm.");
                assertThat(server.scripted.seen.getFirst()).endsWith("high");
                String grammar = server.grammars.compiled.getLast().text();
                assertThat(grammar)
                        .contains("thought)? tag\n")
                        .contains("\"final\"", "%json {\"const\":5}", "\"assistant\"");
                assertThat(grammar.contains("to=functions.weather")).isEqualTo(fields.contains("tools"));
                RawClient.Answer budget = server.ask(fields + ", \"thinking_token_budget\": 5");
                assertThat(budget.status()).isEqualTo(400);
                assertThat(budget.parameter()).isEqualTo("response_format");
            }
        }
        try (ScriptedServer server = new ScriptedServer(
                HARMONY, prompt -> "<|channel|>commentary to=functions.time <|constrain|>json<|message|>{}<|call|>")) {
            JsonNode choice = server.choice(TOOLS + ", " + SCHEMA);
            assertThat(name(choice.at("/message/tool_calls/0"))).isEqualTo("time");
            assertThat(choice.path("finish_reason").asString()).isEqualTo("tool_calls");
        }
    }

    @Test
    void otherGrammarsLeaveNoRoomForChannels() throws IOException {
        try (ScriptedServer server = new ScriptedServer(HARMONY, prompt -> "yes")) {
            String choice = "\"structured_outputs\": {\"choice\": [\"yes\"]}";
            assertThat(server.choice(choice).at("/message/content").asString()).isEqualTo("yes");
            assertThat(server.ask(choice + ", \"reasoning_effort\": \"high\"").status())
                    .isEqualTo(400);
        }
    }

    @Test
    void gemmasCallsAreConstrainedInTheirNotation() throws IOException {
        String call = "<|tool_call>call:time{a:<|\"|>b<|\"|>}<tool_call|>";
        try (ScriptedServer server = new ScriptedServer(BODY + "{# <|tool_call> #}", prompt -> call)) {
            for (String fields : List.of(REQUIRED, STRICT, TOOLS + ", " + SCHEMA)) {
                assertThat(server.choice(fields)
                                .at("/message/tool_calls/0/function/arguments")
                                .asString())
                        .isEqualTo("{\"a\":\"b\"}");
                assertThat(server.grammars.compiled.getLast().text())
                        .contains("call:time")
                        .contains("/[A-Za-z_][A-Za-z0-9_]*/ \":\"")
                        .contains("<[" + ScriptedModel.id("<|\"|>") + "]>");
            }
            assertThat(server.grammars.compiled.getLast().text()).startsWith("start: %json {\"const\":5} | tags");
            RawClient.Answer refused = server.ask("\"tool_choice\": \"required\", \"tools\": [{\"type\": \"function\","
                    + " \"function\": {\"name\": \"a\", \"parameters\": {\"properties\": {\"x\": {\"not\": {}}}}}}]");
            assertThat(refused.status()).isEqualTo(400);
            assertThat(refused.error()).contains("the keyword not is not supported");
        }
        String older = "<start_function_call>call:time{}<end_function_call>";
        try (ScriptedServer server = new ScriptedServer(BODY + "{# <start_function_call> #}", prompt -> older)) {
            assertThat(name(server.choice(REQUIRED).at("/message/tool_calls/0")))
                    .isEqualTo("time");
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("<[" + ScriptedModel.id("<escape>") + "]>")
                    .contains("<[" + ScriptedModel.id("<end_function_call>") + "]>");
        }
    }

    private static final String STRICT = "\"tools\": [" + TIME
            + ", {\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\":"
            + " {\"required\": [\"a\"]}}}]";

    @Test
    void strictToolsAreConstrainedWhereTheyAreCalled() throws IOException {
        try (ScriptedServer server = hermes("No call.")) {
            assertThat(server.choice(STRICT).at("/message/content").asString()).isEqualTo("No call.");
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("[lazy]")
                    .contains("{\"required\":[\"a\"],\"type\":\"object\"}");
        }
    }

    @Test
    void withoutACompilerConstrainedCallsAreNotImplemented() throws IOException {
        try (ScriptedServer server = hermes("x")) {
            server.grammars.missing = "no compiler";
            for (String fields : List.of(REQUIRED, STRICT)) {
                RawClient.Answer answer = server.ask(fields);
                assertThat(answer.status()).isEqualTo(501);
                assertThat(answer.error()).contains("no compiler");
            }
            assertThat(server.ask(TOOLS).status()).isEqualTo(200);
        }
    }

    @ParameterizedTest
    @MethodSource("families")
    void formatsAreConstrainedWhereAGrammarCanExpressThem(List<String> family) throws IOException {
        try (ScriptedServer server = new ScriptedServer(BODY + family.get(0), prompt -> family.get(1))) {
            RawClient.Answer required = server.ask(REQUIRED);
            assertThat(required.status()).as(required.body()).isEqualTo(200);
            RawClient.Answer strict = server.ask(STRICT);
            assertThat(strict.status()).as(strict.body()).isEqualTo(200);
        }
    }

    @Test
    void markersThatAreSpecialTokensAreTokensOfTheGrammar() throws IOException {
        try (ScriptedServer server =
                new ScriptedServer(BODY + "{# [TOOL_CALLS] [ARGS] #}", prompt -> "[TOOL_CALLS]time[ARGS]{}")) {
            assertThat(name(server.choice(REQUIRED).at("/message/tool_calls/0")))
                    .isEqualTo("time");
            // the scripted model's [TOOL_CALLS] is a special token, its [ARGS] is text
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("<[1001]> \"time[ARGS]\" %json")
                    .doesNotContain("TOOL_CALLS");
            assertThat(server.ask(STRICT).status()).isEqualTo(200);
            assertThat(server.grammars.compiled.getLast().text()).contains("trigger0: TEXT <[1001]>");
        }
        try (ScriptedServer server = new ScriptedServer(
                HERMES + "{# </think> #}", prompt -> "<think>a</think><tool_call>{\"name\": \"time\"}</tool_call>")) {
            server.choice(REQUIRED);
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("(<[" + ScriptedModel.id("<think>") + "]> thought)?")
                    .contains("thinking: TEXT <[" + ScriptedModel.id("</think>") + "]>");
        }
    }

    @Test
    void aDemandedCallThatTheClientItselfCutsIsReturnedAsItIs() throws IOException {
        try (ScriptedServer server = hermes("<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>")) {
            JsonNode choice = server.choice(REQUIRED + ", \"stop\": \"name\"");
            assertThat(choice.path("finish_reason").asString()).isEqualTo("stop");
            assertThat(choice.path("stop_reason").asString()).isEqualTo("name");
            String call = choice.at("/message/content").asString();
            JsonNode kept = server.choice(REQUIRED + ", \"stop\": \"name\", \"include_stop_str_in_output\": true");
            assertThat(kept.at("/message/content").asString()).isEqualTo(call + "name");
            JsonNode cut = server.choice(REQUIRED + ", \"max_tokens\": 14");
            assertThat(cut.path("finish_reason").asString()).isEqualTo("length");
        }
    }

    @Test
    void constrainedCallsTakeNoOtherGrammarAndOnlyObjects() throws IOException {
        try (ScriptedServer server = hermes("x")) {
            RawClient.Answer both = server.ask(TOOLS + ", \"structured_outputs\": {\"regex\": \"a\"}");
            assertThat(both.status()).isEqualTo(400);
            assertThat(both.parameter()).isEqualTo("structured_outputs");
            RawClient.Answer list = server.ask("\"tool_choice\": \"required\", \"tools\": [{\"type\": \"function\","
                    + " \"function\": {\"name\": \"a\", \"parameters\": {\"type\": \"array\"}}}]");
            assertThat(list.status()).isEqualTo(400);
            assertThat(list.parameter()).isEqualTo("tools");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"tools\": 5 | tools | a list of tools",
                "\"tools\": [5] | tools[0] | an object",
                "\"tools\": [{\"type\": \"x\"}] | tools[0].type | \"function\"",
                "\"tools\": [{\"type\": \"function\"}] | tools[0].function | an object with a name",
                "\"tools\": [{\"type\": \"function\", \"function\": {}}] | tools[0].function.name | a string",
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a b\"}}] | tools[0].function.name | "
                        + "letters",
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\", \"parameters\": []}}] | "
                        + "tools[0].function.parameters | a JSON schema",
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\", \"strict\": 1}}] | "
                        + "tools[0].function.strict | true or false",
                "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a\"}}, {\"type\": \"function\", "
                        + "\"function\": {\"name\": \"a\"}}] | tools[1].function.name | another tool has",
                "\"tool_choice\": \"required\" | tool_choice | send tools",
                "\"tool_choice\": \"any\" | tool_choice | it must be",
                "\"tool_choice\": 1 | tool_choice | a string",
                "\"tool_choice\": {\"type\": \"allowed_tools\"} | tool_choice.type | \"function\"",
                "\"tool_choice\": {\"type\": \"function\"} | tool_choice.function.name | a string",
                "\"parallel_tool_calls\": 1 | parallel_tool_calls | true or false"
            })
    void errorsNameTheField(String fields, String parameter, String words) throws IOException {
        try (ScriptedServer server = hermes("x")) {
            RawClient.Answer answer = server.ask(fields);
            assertThat(answer.status()).as(answer.body()).isEqualTo(400);
            assertThat(answer.parameter()).isEqualTo(parameter);
            assertThat(answer.error()).contains(words);
        }
    }

    @Test
    void aNamedChoiceMustBeOneOfTheTools() throws IOException {
        try (ScriptedServer server = hermes("x")) {
            RawClient.Answer answer = server.ask(
                    TOOLS + ", \"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"nothing\"}}");
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.parameter()).isEqualTo("tool_choice.function.name");
        }
    }

    /** What {@code --tool-call-parser} does. */
    @Test
    void aGivenFormatReplacesThatOfTheTemplate() throws IOException {
        String answer = "[TOOL_CALLS]time{\"zone\": \"CET\"}";
        try (ScriptedServer server = hermes(answer)) {
            JsonNode message = server.choice(TOOLS).path("message");
            assertThat(message.path("content").asString()).isEqualTo("time{\"zone\": \"CET\"}");
            assertThat(message.has("tool_calls")).isFalse();
        }
        Optional<ToolCallFormat> mistral = Optional.of(ToolCallFormat.MISTRAL);
        for (String template : List.of(HERMES, BODY)) {
            try (ScriptedServer server = new ScriptedServer(template, prompt -> answer, ApiKeys.NONE, mistral)) {
                JsonNode choice = server.choice(TOOLS);
                assertThat(choice.path("finish_reason").asString()).isEqualTo("tool_calls");
                JsonNode call = choice.at("/message/tool_calls/0");
                assertThat(name(call)).isEqualTo("time");
                assertThat(call.at("/function/arguments").asString()).isEqualTo("{\"zone\": \"CET\"}");
            }
        }
    }

    @Test
    void toolsThatTheTemplateDoesNotShowAreRefused() throws IOException {
        try (ScriptedServer server = new ScriptedServer("{{ messages[0].content }}", prompt -> "x")) {
            RawClient.Answer answer = server.ask(TOOLS);
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.parameter()).isEqualTo("tools");
            assertThat(answer.error()).contains("does not show tools");
        }
        try (ScriptedServer server = new ScriptedServer(BODY, prompt -> "x")) {
            assertThat(server.ask(TOOLS).error()).contains("--tool-call-parser");
        }
    }
}
