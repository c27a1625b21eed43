package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Tool calls and reasoning in OpenAI's Responses API, with a model that writes them by a script. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ResponsesToolsTest {
    private static final String RESPONSES = "/v1/responses";
    private static final String BODY = "{% for m in messages %}{{ m.role }}:{{ m.content }}"
            + "{{ '(' ~ m.reasoning_content ~ ')' if m.reasoning_content is defined else '' }}"
            + "{% for c in m.tool_calls or [] %}[{{ c.id }} {{ c.function.name }} "
            + "{{ c.function.arguments | tojson }}]{% endfor %}"
            + "{{ ' for ' ~ m.tool_call_id if m.tool_call_id is defined else '' }}\n"
            + "{% endfor %}{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> #}"
            + "{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '' }}";
    private static final String TOOLS = "\"tools\": [{\"type\": \"function\", \"name\": \"weather\", "
            + "\"parameters\": {\"type\": \"object\"}, \"strict\": false}, "
            + "{\"type\": \"function\", \"name\": \"time\"}]";
    private static final String CALL = "<think>\nabc\n</think>\n\nI look.\n"
            + "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>\n"
            + "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

    private static ScriptedServer answering(String answer) {
        return new ScriptedServer(BODY, prompt -> prompt.contains("tool:") ? "Fine." : answer);
    }

    private static RawClient.Answer ask(ScriptedServer server, String fields) throws IOException {
        return server.post(RESPONSES, "{\"input\": \"hi\", " + fields + "}");
    }

    private static JsonNode created(ScriptedServer server, String fields) throws IOException {
        RawClient.Answer answer = ask(server, fields);
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        return answer.json();
    }

    private static List<String> types(JsonNode response) {
        return response.path("output")
                .valueStream()
                .map(item -> item.path("type").asString())
                .toList();
    }

    @Test
    void theOutputHasAnItemForReasoningTextAndEachCall() throws IOException {
        try (ScriptedServer server = answering(CALL)) {
            JsonNode response = created(server, TOOLS);
            assertThat(types(response)).containsExactly("reasoning", "message", "function_call", "function_call");
            assertThat(response.path("status").asString()).isEqualTo("completed");
            JsonNode reasoning = response.at("/output/0");
            assertThat(reasoning.path("id").asString()).startsWith("rs_");
            assertThat(reasoning.path("summary").isArray()).isTrue();
            assertThat(reasoning.at("/content/0/type").asString()).isEqualTo("reasoning_text");
            assertThat(reasoning.at("/content/0/text").asString()).isEqualTo("abc");
            assertThat(response.at("/output/1/content/0/text").asString()).isEqualTo("I look.");
            JsonNode call = response.at("/output/2");
            assertThat(call.path("id").asString()).startsWith("fc_");
            assertThat(call.path("call_id").asString()).matches("call_[0-9a-f]{24}");
            assertThat(call.path("name").asString()).isEqualTo("weather");
            assertThat(call.path("arguments").asString()).isEqualTo("{\"city\": \"Bern\"}");
            assertThat(call.path("status").asString()).isEqualTo("completed");
            assertThat(call.path("call_id")).isNotEqualTo(response.at("/output/3/call_id"));
            assertThat(response.at("/usage/output_tokens_details/reasoning_tokens")
                            .asInt())
                    .isPositive();
            assertThat(response.at("/tools/0/name").asString()).isEqualTo("weather");
            assertThat(response.path("tool_choice").asString()).isEqualTo("auto");
        }
    }

    @Test
    void aStreamAnnouncesEachItemAndEndsWithTheResponse() throws IOException {
        try (ScriptedServer server = answering(CALL)) {
            List<ServerEvents.Event> events =
                    ServerEvents.of(ask(server, TOOLS + ", \"stream\": true").body());
            List<String> names = ServerEvents.names(events).stream()
                    .filter(name -> !name.endsWith(".delta"))
                    .toList();
            assertThat(names)
                    .containsExactly(
                            "response.created",
                            "response.in_progress",
                            "response.output_item.added",
                            "response.content_part.added",
                            "response.reasoning_text.done",
                            "response.content_part.done",
                            "response.output_item.done",
                            "response.output_item.added",
                            "response.content_part.added",
                            "response.output_text.done",
                            "response.content_part.done",
                            "response.output_item.done",
                            "response.output_item.added",
                            "response.function_call_arguments.done",
                            "response.output_item.done",
                            "response.output_item.added",
                            "response.function_call_arguments.done",
                            "response.output_item.done",
                            "response.completed");
            JsonNode last = events.getLast().data().path("response");
            StringBuilder[] texts = new StringBuilder[4];
            for (int i = 0; i < events.size(); i++) {
                JsonNode data = events.get(i).data();
                assertThat(data.path("sequence_number").asInt()).isEqualTo(i);
                int index = data.path("output_index").asInt(-1);
                switch (events.get(i).name()) {
                    case "response.output_item.added" -> texts[index] = new StringBuilder();
                    case "response.output_item.done" ->
                        assertThat(data.path("item"))
                                .isEqualTo(last.path("output").get(index));
                    default -> {
                        if (index >= 0) {
                            assertThat(data.path("item_id").asString())
                                    .isEqualTo(last.path("output")
                                            .get(index)
                                            .path("id")
                                            .asString());
                            texts[index].append(data.path("delta").asString(""));
                        }
                    }
                }
            }
            assertThat(texts[0].toString()).isEqualTo("abc");
            assertThat(texts[1].toString()).isEqualTo("I look.");
            assertThat(texts[2].toString()).isEqualTo("{\"city\": \"Bern\"}");
            assertThat(texts[3].toString()).isEqualTo("{}");
        }
    }

    @Test
    void aLaterRequestSendsTheResultAlone() throws IOException {
        try (ScriptedServer server = answering(CALL)) {
            JsonNode first = created(server, TOOLS);
            String call = first.at("/output/2/call_id").asString();
            RawClient.Answer second = server.post(
                    RESPONSES,
                    "{" + TOOLS + ", \"previous_response_id\": \""
                            + first.path("id").asString() + "\", \"input\": [{\"type\": \"function_call_output\", "
                            + "\"call_id\": \"" + call + "\", \"output\": \"21 degrees\"}]}");
            assertThat(second.json().at("/output/0/content/0/text").asString()).isEqualTo("Fine.");
            assertThat(server.scripted.seen.getLast())
                    .contains("user:hi\nassistant:I look.(abc)[" + call + " weather {\"city\": \"Bern\"}]")
                    .contains("tool:21 degrees for " + call);
        }
    }

    @Test
    void aClientMaySendTheItemsBackItself() throws IOException {
        try (ScriptedServer server = answering(CALL)) {
            JsonNode first = created(server, TOOLS);
            StringBuilder items = new StringBuilder("{\"role\": \"user\", \"content\": \"hi\"}");
            first.path("output").forEach(item -> items.append(", ").append(item));
            RawClient.Answer second = server.post(
                    RESPONSES,
                    "{" + TOOLS + ", \"input\": [" + items + ", {\"type\": \"function_call_output\", \"call_id\": "
                            + first.at("/output/2/call_id") + ", \"output\": [{\"type\": \"input_text\", "
                            + "\"text\": \"21 degrees\"}]}]}");
            assertThat(second.status()).as(second.body()).isEqualTo(200);
            assertThat(server.scripted.seen.getLast())
                    .contains("user:hi\nassistant:I look.(abc)["
                            + first.at("/output/2/call_id").asString())
                    .contains("tool:21 degrees");
        }
    }

    @Test
    void choicesAreHonoured() throws IOException {
        try (ScriptedServer server = answering(CALL)) {
            assertThat(types(created(server, TOOLS + ", \"parallel_tool_calls\": false")))
                    .containsExactly("reasoning", "message", "function_call");
            created(server, TOOLS + ", \"tool_choice\": \"none\"");
            assertThat(server.scripted.seen.getLast()).doesNotContain("weather");
            created(server, TOOLS + ", \"tool_choice\": \"required\"");
            assertThat(server.grammars.compiled.getLast().text()).contains("weather", "time");
            JsonNode named = created(server, TOOLS + ", \"tool_choice\": {\"type\": \"function\", \"name\": \"time\"}");
            assertThat(server.grammars.compiled.getLast().text()).doesNotContain("weather");
            assertThat(named.at("/tool_choice/name").asString()).isEqualTo("time");
            server.grammars.awaitClosed();
        }
    }

    @Test
    void aFormatConstrainsTheText() throws IOException {
        try (ScriptedServer server = answering("{\"a\": 1}")) {
            String format = "\"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"n\", \"strict\": true, "
                    + "\"schema\": {\"type\": \"object\", \"required\": [\"a\"]}}}";
            JsonNode response = created(server, format);
            assertThat(response.at("/output/0/content/0/text").asString()).isEqualTo("{\"a\": 1}");
            assertThat(response.at("/text/format/name").asString()).isEqualTo("n");
            assertThat(server.grammars.compiled.getLast().text()).contains("\"required\":[\"a\"]");
            created(server, "\"text\": {\"format\": {\"type\": \"json_object\"}}");
            created(server, format + ", \"background\": true");
        }
    }

    @Test
    void effortNoneSwitchesReasoningOff() throws IOException {
        try (ScriptedServer server = answering("Yes.")) {
            created(server, "\"reasoning\": {\"effort\": \"none\"}");
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            created(
                    server,
                    "\"reasoning\": {\"effort\": \"low\", \"summary\": \"auto\"}, "
                            + "\"include\": [\"reasoning.encrypted_content\"]");
            assertThat(server.scripted.seen.getLast()).doesNotContain("<think>");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"tools\": [{\"type\": \"web_search\"}] | tools[0].type | the server itself calls no tools",
                "\"tools\": [{\"type\": \"function\"}] | tools[0].name | a string",
                "\"tool_choice\": \"required\" | tool_choice | send tools",
                "\"tool_choice\": {\"type\": \"function\"} | tool_choice.name | a string",
                "\"tool_choice\": {\"type\": \"file_search\"} | tool_choice.type | \"function\"",
                "\"text\": {\"format\": {\"type\": \"xml\"}} | text.format | json_schema",
                "\"text\": {\"format\": {\"type\": \"json_schema\", \"name\": \"n\"}} | text.format.schema | an object",
                "\"text\": {\"verbosity\": \"high\"} | text.verbosity | ask for it",
                "\"reasoning\": {\"effort\": \"much\"} | reasoning.effort | one of",
                "\"reasoning\": {\"summary\": \"detailed\"} | reasoning.summary | summarises no reasoning",
                "\"reasoning\": {\"x\": \"y\"} | reasoning.x | not supported",
                "\"include\": [\"message.output_text.logprobs\"] | include | not supported"
            })
    void errorsNameTheField(String fields, String parameter, String words) throws IOException {
        try (ScriptedServer server = answering("x")) {
            RawClient.Answer answer = ask(server, fields);
            assertThat(answer.status()).as(answer.body()).isEqualTo(400);
            assertThat(answer.parameter()).isEqualTo(parameter);
            assertThat(answer.error()).contains(words);
        }
    }
}
