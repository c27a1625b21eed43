package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** OpenAI's Responses API against the real server. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ResponsesApiTest {
    private static final String RESPONSES = "/v1/responses";
    private static RunningServer server;

    @BeforeAll
    static void start() {
        server = new RunningServer();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    private static RawClient.Answer ask(String fields) throws IOException {
        return server.post(RESPONSES, "{\"max_output_tokens\": 3, \"temperature\": 0, " + fields + "}");
    }

    private static JsonNode created(String fields) throws IOException {
        RawClient.Answer answer = ask(fields);
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        return answer.json();
    }

    private static String id(JsonNode response) {
        return response.path("id").asString();
    }

    private static String text(JsonNode response) {
        return response.at("/output/0/content/0/text").asString();
    }

    private static int promptTokens(JsonNode response) {
        return response.at("/usage/input_tokens").asInt();
    }

    @Test
    void anInputIsAnsweredAndTheResponseKept() throws IOException {
        JsonNode response = created("\"input\": \"hi\", \"metadata\": {\"a\": \"b\"}");
        assertThat(id(response)).matches("resp_[0-9a-f]{32}");
        assertThat(response.path("object").asString()).isEqualTo("response");
        assertThat(response.path("status").asString()).isEqualTo("incomplete");
        assertThat(response.at("/incomplete_details/reason").asString()).isEqualTo("max_output_tokens");
        assertThat(text(response)).matches("(t\\d+ ){3}");
        assertThat(promptTokens(response)).isEqualTo("user:hi".length());
        assertThat(response.at("/usage/total_tokens").asInt()).isEqualTo("user:hi".length() + 3);
        assertThat(response.at("/metadata/a").asString()).isEqualTo("b");
        assertThat(server.get(RESPONSES + "/" + id(response)).json()).isEqualTo(response);
    }

    @Test
    void aLaterInputContinuesTheConversationWithoutTheInstructions() throws IOException {
        JsonNode first = created("\"input\": \"hi\", \"instructions\": \"be\"");
        assertThat(promptTokens(first)).isEqualTo("system:beuser:hi".length());
        JsonNode second = created("\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", "
                + "\"text\": \"go\"}]}], \"previous_response_id\": \"" + id(first) + "\"");
        String soFar = "user:hiassistant:" + text(first) + "user:go";
        assertThat(promptTokens(second)).isEqualTo(soFar.length());
        assertThat(second.path("previous_response_id").asString()).isEqualTo(id(first));
        JsonNode third = created("\"input\": \"x\", \"previous_response_id\": \"" + id(second) + "\"");
        assertThat(promptTokens(third)).isEqualTo((soFar + "assistant:" + text(second) + "user:x").length());
    }

    @Test
    void itemsOfEveryKindAreRendered() throws IOException {
        JsonNode response = created("\"instructions\": \"a\", \"input\": ["
                + "{\"role\": \"developer\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"hi\"}, "
                + "{\"type\": \"reasoning\", \"summary\": []}, "
                + "{\"type\": \"function_call\", \"call_id\": \"1\", \"name\": \"f\", "
                + "\"arguments\": \"{\\\"city\\\": \\\"Rome\\\"}\"}, "
                + "{\"type\": \"function_call_output\", \"call_id\": \"1\", \"output\": \"sun\"}]");
        assertThat(promptTokens(response)).isEqualTo("system:a\n\nbuser:hiassistant:city=Rome;tool:sun".length());
    }

    @Test
    void aStreamHasItsEventsInOrderAndEndsWithTheResponse() throws IOException {
        List<ServerEvents.Event> events =
                ServerEvents.of(ask("\"input\": \"hi\", \"stream\": true").body());
        assertThat(ServerEvents.names(events))
                .containsExactly(
                        "response.created",
                        "response.in_progress",
                        "response.output_item.added",
                        "response.content_part.added",
                        "response.output_text.delta",
                        "response.output_text.delta",
                        "response.output_text.delta",
                        "response.output_text.done",
                        "response.content_part.done",
                        "response.output_item.done",
                        "response.incomplete");
        for (int i = 0; i < events.size(); i++) {
            assertThat(events.get(i).data().path("type").asString())
                    .isEqualTo(events.get(i).name());
            assertThat(events.get(i).data().path("sequence_number").asInt()).isEqualTo(i);
        }
        JsonNode last = events.getLast().data().path("response");
        StringBuilder text = new StringBuilder();
        events.forEach(event -> text.append(event.data().path("delta").asString("")));
        assertThat(text.toString()).isEqualTo(text(last));
        assertThat(events.get(7).data().path("text").asString()).isEqualTo(text(last));
        assertThat(server.get(RESPONSES + "/" + id(last)).json()).isEqualTo(last);
    }

    @Test
    void aResponseThatIsNotStoredCannotBeNamed() throws IOException {
        JsonNode response = created("\"input\": \"hi\", \"store\": false");
        for (RawClient.Answer answer : List.of(
                server.get(RESPONSES + "/" + id(response)),
                server.post(RESPONSES + "/" + id(response) + "/cancel", ""),
                ask("\"input\": \"x\", \"previous_response_id\": \"" + id(response) + "\""))) {
            assertThat(answer.status()).isEqualTo(404);
            assertThat(answer.error()).contains(id(response), "store false", "send the whole conversation");
        }
    }

    @Test
    void aBackgroundResponseIsComputedWithoutItsClient() throws IOException {
        JsonNode queued = created("\"input\": \"hi\", \"background\": true");
        assertThat(queued.path("status").asString()).isEqualTo("queued");
        JsonNode now = queued;
        while (!now.path("status").asString().equals("incomplete")
                && !Thread.currentThread().isInterrupted()) { // the time limit of the test bounds it
            now = server.get(RESPONSES + "/" + id(queued)).json();
        }
        assertThat(text(now)).matches("(t\\d+ ){3}");
        RawClient.Answer ended = server.post(RESPONSES + "/" + id(queued) + "/cancel", "");
        assertThat(ended.status()).isEqualTo(400);
        assertThat(ended.error()).contains("the response is incomplete");
    }

    @Test
    void aResponseInProgressCanBeCancelledAndNotContinued() throws IOException {
        try (RunningServer held = new RunningServer();
                RawClient canceller = held.connect()) {
            held.executor.hold();
            JsonNode queued = held.post(RESPONSES, "{\"input\": \"hi\", \"background\": true}")
                    .json();
            String id = id(queued);
            assertThat(held.get(RESPONSES + "/" + id).json().path("status").asString())
                    .isEqualTo("in_progress");
            RawClient.Answer next =
                    held.post(RESPONSES, "{\"input\": \"x\", \"previous_response_id\": \"" + id + "\"}");
            assertThat(next.status()).isEqualTo(400);
            assertThat(next.parameter()).isEqualTo("previous_response_id");
            canceller.post(RESPONSES + "/" + id + "/cancel", "");
            held.executor.release();
            assertThat(canceller.read().json().path("status").asString()).isEqualTo("cancelled");
            assertThat(held.get(RESPONSES + "/" + id).json().path("status").asString())
                    .isEqualTo("cancelled");
        }
    }

    @Test
    void aTimeoutFailsTheResponse() throws IOException {
        try (RunningServer held = new RunningServer()) {
            held.executor.hold();
            String body = "{\"input\": \"hi\", \"timeout\": 0.01";
            assertThat(held.post(RESPONSES, body + "}").status()).isEqualTo(408);
            List<ServerEvents.Event> events = ServerEvents.of(
                    held.post(RESPONSES, body + ", \"stream\": true}").body());
            assertThat(events.getLast().name()).isEqualTo("response.failed");
            assertThat(events.getLast().data().at("/response/error/message").asString())
                    .contains("timeout of 0.01 s");
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "\"tools\": []", "\"tool_choice\": \"auto\"", "\"text\": {\"format\": {\"type\": \"text\"}}",
                "\"truncation\": \"disabled\"", "\"reasoning\": {\"effort\": null}", "\"include\": []",
                "\"top_logprobs\": 0", "\"stream_options\": {\"include_obfuscation\": false}", "\"user\": \"u\"",
                "\"top_k\": 3, \"seed\": 1, \"top_p\": 0.9"
            })
    void hintsAndNeutralValuesAreAccepted(String field) throws IOException {
        assertThat(ask("\"input\": \"hi\", " + field).status()).isEqualTo(200);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"store\": true | input | input is missing",
                "\"input\": [] | input | at least one item",
                "\"input\": 1 | input | a string or a list",
                "\"input\": [{\"type\": \"item_reference\"}] | input[0].type | 'item_reference'",
                "\"input\": [{\"role\": \"x\", \"content\": \"y\"}] | input[0].role | \"user\"",
                "\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_image\"}]}] | "
                        + "input[0].content[0] | images and files",
                "\"input\": [{\"type\": \"reasoning\"}] | input | has no message",
                "\"input\": \"a\", \"reasoning\": {\"effort\": \"high\"} | reasoning.effort | cannot change it",
                "\"input\": \"a\", \"truncation\": \"auto\" | truncation | shorten the input",
                "\"input\": \"a\", \"background\": true, \"store\": false | background | needs store",
                "\"input\": \"a\", \"background\": true, \"stream\": true | background | together with stream",
                "\"input\": \"a\", \"metadata\": {\"a\": 1} | metadata | strings",
                "\"input\": \"a\", \"max_output_tokens\": 0 | max_output_tokens | at least 1",
                "\"input\": \"a\", \"x\": 1 | x | has no field 'x'"
            })
    void errorsNameTheField(String fields, String parameter, String words) throws IOException {
        RawClient.Answer answer = server.post(RESPONSES, "{" + fields + "}");
        assertThat(answer.status()).as(answer.body()).isEqualTo(400);
        assertThat(answer.parameter()).isEqualTo(parameter);
        assertThat(answer.error()).contains(words);
    }
}
