package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Tool calls and reasoning in Anthropic's Messages API, with a model that writes them by a script. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class MessagesToolsTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String BODY = "{% for m in messages %}{{ m.role }}:{{ m.content }}"
            + "{{ '(' ~ m.reasoning_content ~ ')' if m.reasoning_content is defined else '' }}"
            + "{% for c in m.tool_calls or [] %}[{{ c.id }} {{ c.function.name }} "
            + "{{ c.function.arguments | tojson }}]{% endfor %}"
            + "{{ ' for ' ~ m.tool_call_id if m.tool_call_id is defined else '' }}\n"
            + "{% endfor %}{% for t in tools or [] %}{{ t | tojson }} {% endfor %}{# <tool_call> #}";
    private static final String REASONS =
            BODY + "{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '' }}";
    private static final String WEATHER =
            "{\"name\": \"weather\", \"description\": \"of a city\", \"input_schema\": {\"type\": \"object\"}}";
    private static final String TOOLS = "\"tools\": [" + WEATHER + ", {\"name\": \"time\", \"type\": \"custom\"}]";
    private static final String TWO_CALLS =
            "I look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Zürich\"}}\n</tool_call>\n"
                    + "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
    private static final String THOUGHTFUL = "<think>\nabc\n</think>\n\nYes.";

    private static ScriptedServer answering(String answer) {
        return new ScriptedServer(REASONS, prompt -> answer);
    }

    private static RawClient.Answer ask(ScriptedServer server, String fields) throws IOException {
        return server.post(
                "/v1/messages",
                "{\"max_tokens\": 500, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], " + fields + "}");
    }

    private static JsonNode message(ScriptedServer server, String fields) throws IOException {
        RawClient.Answer answer = ask(server, fields);
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        return answer.json();
    }

    /** The message that clients build of a stream's events, which must come in order. */
    private static JsonNode joined(ScriptedServer server, String fields) throws IOException {
        List<ServerEvents.Event> events =
                ServerEvents.of(ask(server, fields + ", \"stream\": true").body());
        assertThat(ServerEvents.names(events).subList(0, 2)).containsExactly("message_start", "ping");
        ObjectNode message = events.getFirst().data().path("message").deepCopy().asObject();
        ArrayNode content = message.withArray("content");
        List<StringBuilder> texts = new ArrayList<>();
        boolean open = false;
        for (ServerEvents.Event event : events.subList(2, events.size())) {
            JsonNode data = event.data();
            switch (event.name()) {
                case "content_block_start" -> {
                    assertThat(open).isFalse();
                    assertThat(data.path("index").asInt()).isEqualTo(content.size());
                    content.add(data.path("content_block").deepCopy());
                    texts.add(new StringBuilder());
                    open = true;
                }
                case "content_block_delta" -> {
                    assertThat(open).isTrue();
                    assertThat(data.path("index").asInt()).isEqualTo(content.size() - 1);
                    JsonNode delta = data.path("delta");
                    texts.getLast()
                            .append(delta.path("text").asString(""))
                            .append(delta.path("thinking").asString(""))
                            .append(delta.path("partial_json").asString(""));
                    if (delta.has("signature")) {
                        block(content).put("signature", delta.path("signature").asString());
                    }
                }
                case "content_block_stop" -> {
                    String type = block(content).path("type").asString();
                    String text = texts.getLast().toString();
                    if (type.equals("tool_use")) {
                        block(content).set("input", JSON.readTree(text));
                    } else {
                        block(content).put(type, text);
                    }
                    open = false;
                }
                case "message_delta" -> message.setAll(data.path("delta").asObject());
                default -> assertThat(event.name()).isEqualTo("message_stop");
            }
        }
        assertThat(events.getLast().name()).isEqualTo("message_stop");
        return message;
    }

    private static ObjectNode block(ArrayNode content) {
        return content.get(content.size() - 1).asObject();
    }

    private static List<String> types(JsonNode message) {
        return message.path("content")
                .valueStream()
                .map(block -> block.path("type").asString())
                .toList();
    }

    @Test
    void callsAreBlocksAfterTheText() throws IOException {
        try (ScriptedServer server = answering(TWO_CALLS)) {
            JsonNode message = message(server, TOOLS);
            assertThat(types(message)).containsExactly("text", "tool_use", "tool_use");
            assertThat(message.path("stop_reason").asString()).isEqualTo("tool_use");
            assertThat(message.at("/content/0/text").asString()).isEqualTo("I look.");
            assertThat(message.at("/content/1/name").asString()).isEqualTo("weather");
            assertThat(message.at("/content/1/input/city").asString()).isEqualTo("Zürich");
            assertThat(message.at("/content/1/id").asString()).matches("toolu_[0-9a-f]{24}");
            assertThat(message.at("/content/2/input").isObject()).isTrue();
            assertThat(server.scripted.seen.getFirst())
                    .contains("\"description\": \"of a city\"", "\"parameters\": {\"type\": \"object\"}");
        }
    }

    @Test
    void aStreamMakesTheSameMessage() throws IOException {
        try (ScriptedServer server = answering(TWO_CALLS)) {
            JsonNode whole = message(server, TOOLS);
            JsonNode streamed = joined(server, TOOLS);
            assertThat(types(streamed)).isEqualTo(types(whole));
            assertThat(streamed.at("/content/1/input")).isEqualTo(whole.at("/content/1/input"));
            assertThat(streamed.at("/content/0/text")).isEqualTo(whole.at("/content/0/text"));
            assertThat(streamed.path("stop_reason").asString()).isEqualTo("tool_use");
            assertThat(streamed.at("/content/1/id")).isNotEqualTo(streamed.at("/content/2/id"));
        }
    }

    @Test
    void resultsGoBackToTheModel() throws IOException {
        try (ScriptedServer server = answering("Fine.")) {
            RawClient.Answer answer = server.post(
                    "/v1/messages",
                    "{\"max_tokens\": 9, " + TOOLS + ", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
                            + "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"hm\", "
                            + "\"signature\": \"s\"}, {\"type\": \"tool_use\", \"id\": \"toolu_1\", "
                            + "\"name\": \"weather\", \"input\": {\"city\": \"Bern\"}}]}, {\"role\": \"user\", "
                            + "\"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"toolu_1\", "
                            + "\"content\": \"21 degrees\"}]}]}");
            assertThat(answer.status()).as(answer.body()).isEqualTo(200);
            assertThat(server.scripted.seen.getFirst())
                    .contains("assistant:(hm)[toolu_1 weather {\"city\": \"Bern\"}]")
                    .contains("tool:21 degrees for toolu_1");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {"true | Error: no such city for toolu_1", "false | tool:no such city for toolu_1"})
    void theModelSeesThatACallFailed(boolean isError, String words) throws IOException {
        try (ScriptedServer server = answering("Fine.")) {
            RawClient.Answer answer = server.post("/v1/messages", failedCall(Boolean.toString(isError)));
            assertThat(answer.status()).as(answer.body()).isEqualTo(200);
            assertThat(server.scripted.seen.getFirst()).contains(words);
        }
    }

    @Test
    void anErrorMustBeTrueOrFalse() throws IOException {
        try (ScriptedServer server = answering("Fine.")) {
            RawClient.Answer answer = server.post("/v1/messages", failedCall("1"));
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.error()).contains("messages.1.content.0.is_error is 1", "true or false");
        }
    }

    private static String failedCall(String isError) {
        return "{\"max_tokens\": 9, " + TOOLS + ", \"messages\": [{\"role\": \"assistant\", \"content\": "
                + "[{\"type\": \"tool_use\", \"id\": \"toolu_1\", \"name\": \"weather\", \"input\": {}}]}, "
                + "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", "
                + "\"tool_use_id\": \"toolu_1\", \"content\": \"no such city\", \"is_error\": " + isError
                + "}]}]}";
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"output_config\": {\"effort\": \"high\", \"format\": {\"type\": \"json_schema\", "
                        + "\"schema\": {\"const\": 5}}}",
                "\"output_format\": {\"type\": \"json_schema\", \"schema\": {\"const\": 5}}"
            })
    void theOutputMayHaveASchema(String field) throws IOException {
        try (ScriptedServer server = answering("{\"a\": 5}")) {
            for (JsonNode message : List.of(message(server, field), joined(server, field))) {
                assertThat(types(message)).containsExactly("text");
                assertThat(message.at("/content/0/text").asString()).isEqualTo("{\"a\": 5}");
                assertThat(message.path("stop_reason").asString()).isEqualTo("end_turn");
                assertThat(server.grammars.compiled.removeLast().text()).isEqualTo("{\"const\":5}");
            }
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            server.grammars.awaitClosed();
            String hi = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], ";
            assertThat(server.post("/v1/messages/count_tokens", hi + field + "}")
                            .status())
                    .isEqualTo(200);
        }
    }

    @Test
    void oneCallOnlyWithoutParallelUse() throws IOException {
        try (ScriptedServer server = answering(TWO_CALLS)) {
            String one = ", \"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": true}";
            assertThat(types(message(server, TOOLS + one))).containsExactly("text", "tool_use");
            assertThat(types(joined(server, TOOLS + one))).containsExactly("text", "tool_use");
        }
    }

    @Test
    void withNoneTheModelSeesNoTools() throws IOException {
        try (ScriptedServer server = answering(TWO_CALLS)) {
            JsonNode message = message(server, TOOLS + ", \"tool_choice\": {\"type\": \"none\"}");
            assertThat(message.at("/content/0/text").asString()).isEqualTo(TWO_CALLS);
            assertThat(server.scripted.seen.getFirst()).doesNotContain("weather");
        }
    }

    @Test
    void demandedCallsAreConstrained() throws IOException {
        try (ScriptedServer server = answering("<tool_call>{\"name\": \"time\", \"arguments\": {}}</tool_call>")) {
            assertThat(types(message(server, TOOLS + ", \"tool_choice\": {\"type\": \"any\"}")))
                    .containsExactly("tool_use");
            assertThat(server.grammars.compiled.getLast().text()).contains("weather", "time");
            message(server, TOOLS + ", \"tool_choice\": {\"type\": \"tool\", \"name\": \"time\"}");
            assertThat(server.grammars.compiled.getLast().text())
                    .contains("time")
                    .doesNotContain("weather");
            server.grammars.awaitClosed();
        }
    }

    @Test
    void argumentsThatAreNoObjectAreReturnedAsText() throws IOException {
        try (ScriptedServer server = answering("<tool_call>{\"name\": \"time\", \"arguments\": {\"a\": \"bcdefgh")) {
            JsonNode message = message(server, TOOLS);
            assertThat(message.at("/content/0/input/INVALID_JSON").asString()).isEqualTo("{\"a\": \"bcdefgh");
        }
    }

    @Test
    void reasoningIsAThinkingBlock() throws IOException {
        try (ScriptedServer server = answering(THOUGHTFUL)) {
            String thinking = "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 100}";
            for (JsonNode message : List.of(message(server, thinking), joined(server, thinking))) {
                assertThat(types(message)).containsExactly("thinking", "text");
                assertThat(message.at("/content/0/thinking").asString()).isEqualTo("abc");
                assertThat(message.at("/content/0/signature").asString()).isNotEmpty();
                assertThat(message.at("/content/1/text").asString()).isEqualTo("Yes.");
                assertThat(message.path("stop_reason").asString()).isEqualTo("end_turn");
            }
            assertThat(server.scripted.seen.getLast()).doesNotContain("<think></think>");
        }
    }

    @Test
    void withoutThinkingTheTemplateIsToldNotToReason() throws IOException {
        try (ScriptedServer server = answering("Yes.")) {
            message(server, "\"top_k\": 1");
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            message(server, "\"thinking\": {\"type\": \"disabled\"}");
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            message(server, "\"thinking\": {\"type\": \"adaptive\"}");
            assertThat(server.scripted.seen.getLast()).doesNotContain("<think>");
        }
    }

    @Test
    void aBudgetEndsTheThinking() throws IOException {
        try (ScriptedServer server = new ScriptedServer(
                REASONS, prompt -> prompt.endsWith("</think>\n\n") ? "Yes." : "<think>" + "x".repeat(400))) {
            String thinking = "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 3}";
            for (JsonNode message : List.of(message(server, thinking), joined(server, thinking))) {
                assertThat(message.at("/content/0/thinking").asString()).matches("x{2,4}");
                assertThat(message.at("/content/1/text").asString()).isEqualTo("Yes.");
            }
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"tools\": [{\"name\": \"a b\", \"input_schema\": {}}] | tools[0].name",
                "\"tools\": [{\"name\": \"a\", \"input_schema\": 1}] | tools[0].input_schema is 1",
                "\"tools\": [{\"type\": \"web_search_20250305\", \"name\": \"w\"}] | the server itself calls no tools",
                "\"tool_choice\": {\"type\": \"any\"} | send tools",
                "\"tool_choice\": {\"type\": \"x\"} | tool_choice.type is \"x\"",
                "\"tool_choice\": {\"type\": \"tool\"} | tool_choice.name",
                "\"tool_choice\": {\"type\": \"auto\", \"disable_parallel_tool_use\": 1} | true or false",
                "\"output_config\": {\"format\": {\"type\": \"text\"}} | output_config.format.type is \"text\"",
                "\"output_config\": {\"format\": {\"type\": \"json_schema\"}} | output_config.format.schema",
                "\"output_config\": {\"effort\": \"low\"} | output_config.effort is \"low\"; set thinking",
                "\"output_config\": {\"x\": 1} | output_config.x is not supported",
                "\"output_format\": {\"type\": \"json_schema\", \"schema\": {}}, \"output_config\": {\"format\": "
                        + "{\"type\": \"json_schema\", \"schema\": {}}} | leave out output_format or output_config",
                "\"output_format\": {\"type\": \"json_schema\", \"schema\": {}}, \"thinking\": {\"type\": "
                        + "\"adaptive\"} | output_format cannot be combined with thinking",
                "\"thinking\": {\"type\": \"x\"} | thinking.type is \"x\"",
                "\"thinking\": {\"type\": \"enabled\"} | thinking.budget_tokens",
                "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 500} | less than max_tokens, which is 500"
            })
    void errorsNameTheField(String fields, String words) throws IOException {
        try (ScriptedServer server = answering("x")) {
            RawClient.Answer answer = ask(server, fields);
            assertThat(answer.status()).as(answer.body()).isEqualTo(400);
            assertThat(answer.error()).contains(words);
        }
    }

    @Test
    void thinkingAndDemandedCallsExcludeEachOther() throws IOException {
        try (ScriptedServer server = answering("x")) {
            RawClient.Answer answer = ask(
                    server,
                    TOOLS + ", \"tool_choice\": {\"type\": \"any\"}, "
                            + "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 5}");
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.error()).contains("tool_choice cannot be combined with thinking.budget_tokens");
        }
    }

    @Test
    void reasoningThatCannotBeSwitchedIsRefused() throws IOException {
        try (ScriptedServer server = new ScriptedServer(BODY, prompt -> "x")) {
            RawClient.Answer answer = ask(server, "\"thinking\": {\"type\": \"adaptive\"}");
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.error()).contains("shows no reasoning");
        }
        try (ScriptedServer server = new ScriptedServer(BODY + "{# </think> #}", prompt -> "x")) {
            RawClient.Answer answer = ask(server, "\"thinking\": {\"type\": \"disabled\"}");
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.error()).contains("no switch for reasoning");
        }
    }

    @Test
    void toolsCountAsTokens() throws IOException {
        try (ScriptedServer server = answering("x")) {
            String hi = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]";
            JsonNode without =
                    server.post("/v1/messages/count_tokens", hi + "}").json();
            JsonNode with = server.post("/v1/messages/count_tokens", hi + ", " + TOOLS + "}")
                    .json();
            assertThat(with.path("input_tokens").asInt())
                    .isGreaterThan(without.path("input_tokens").asInt());
        }
    }
}
