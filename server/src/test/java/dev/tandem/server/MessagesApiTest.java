package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Anthropic's Messages API against the real server. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class MessagesApiTest {
    private static final String MESSAGES = "/v1/messages";
    private static final String HI = "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]";
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
        return server.post(MESSAGES, "{" + HI + ", " + fields + "}");
    }

    /** The prompt's length; the test's template and tokenizer make one token of each character. */
    private static int count(String fields) throws IOException {
        RawClient.Answer answer = server.post(MESSAGES + "/count_tokens", "{" + fields + "}");
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        return answer.json().path("input_tokens").asInt();
    }

    @Test
    void aMessageIsAnswered() throws IOException {
        RawClient.Answer answer = ask("\"max_tokens\": 3, \"model\": \"fake\", \"temperature\": 0");
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        JsonNode message = answer.json();
        assertThat(message.path("id").asString()).startsWith("msg_");
        assertThat(message.path("type").asString()).isEqualTo("message");
        assertThat(message.path("role").asString()).isEqualTo("assistant");
        assertThat(message.path("model").asString()).isEqualTo("fake");
        assertThat(message.at("/content/0/type").asString()).isEqualTo("text");
        assertThat(message.at("/content/0/text").asString()).matches("(t\\d+ ){3}");
        assertThat(message.path("stop_reason").asString()).isEqualTo("max_tokens");
        assertThat(message.path("stop_sequence").isNull()).isTrue();
        assertThat(message.at("/usage/input_tokens").asInt()).isEqualTo("user:hi".length());
        assertThat(message.at("/usage/output_tokens").asInt()).isEqualTo(3);
    }

    @Test
    void aStopSequenceEndsTheAnswerAndIsNamed() throws IOException {
        // the fake model's tokens are words with a space after them
        JsonNode message =
                ask("\"max_tokens\": 6, \"stop_sequences\": [\"?\", \" \"]").json();
        assertThat(message.path("stop_reason").asString()).isEqualTo("stop_sequence");
        assertThat(message.path("stop_sequence").asString()).isEqualTo(" ");
        assertThat(message.at("/content/0/text").asString()).matches("t\\d+");
        List<ServerEvents.Event> events =
                ServerEvents.of(ask("\"max_tokens\": 6, \"stop_sequences\": [\" \"], \"stream\": true")
                        .body());
        assertThat(events.get(events.size() - 2)
                        .data()
                        .at("/delta/stop_sequence")
                        .asString())
                .isEqualTo(" ");
    }

    @Test
    void aStreamHasItsEventsInOrder() throws IOException {
        List<ServerEvents.Event> events =
                ServerEvents.of(ask("\"max_tokens\": 3, \"stream\": true").body());
        assertThat(ServerEvents.names(events))
                .containsExactly(
                        "message_start",
                        "ping",
                        "content_block_start",
                        "content_block_delta",
                        "content_block_delta",
                        "content_block_delta",
                        "content_block_stop",
                        "message_delta",
                        "message_stop");
        assertThat(events)
                .allMatch(event -> event.data().path("type").asString().equals(event.name()));
        JsonNode start = events.getFirst().data().path("message");
        assertThat(start.path("content").isEmpty()).isTrue();
        assertThat(start.path("stop_reason").isNull()).isTrue();
        assertThat(start.at("/usage/input_tokens").asInt()).isEqualTo("user:hi".length());
        StringBuilder text = new StringBuilder();
        events.forEach(event -> text.append(event.data().at("/delta/text").asString("")));
        assertThat(text.toString()).matches("(t\\d+ ){3}");
        JsonNode end = events.get(7).data();
        assertThat(end.at("/delta/stop_reason").asString()).isEqualTo("max_tokens");
        assertThat(end.at("/usage/output_tokens").asInt()).isEqualTo(3);
    }

    @Test
    void contentBlocksAndTheSystemPromptAreRendered() throws IOException {
        String block = "{\"type\": \"text\", \"text\": \"%s\", \"cache_control\": {\"type\": \"ephemeral\"}}";
        assertThat(count(HI)).isEqualTo("user:hi".length());
        assertThat(count(HI + ", \"system\": \"be\"")).isEqualTo("system:beuser:hi".length());
        assertThat(count(HI + ", \"system\": [" + block.formatted("be") + ", " + block.formatted("good") + "]"))
                .isEqualTo("system:be\ngooduser:hi".length());
        assertThat(count("\"messages\": [{\"role\": \"user\", \"content\": [" + block.formatted("ab") + "]}]"))
                .isEqualTo("user:ab".length());
    }

    @Test
    void toolsOfTheConversationSoFarAreRendered() throws IOException {
        String conversation = "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
                + "{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"hm\", "
                + "\"signature\": \"x\"}, {\"type\": \"tool_use\", \"id\": \"1\", \"name\": \"f\", "
                + "\"input\": {\"city\": \"Paris\"}}]}, "
                + "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"1\", "
                + "\"content\": [{\"type\": \"text\", \"text\": \"sun\"}]}, {\"type\": \"text\", \"text\": \"so\"}]}]";
        assertThat(count(conversation)).isEqualTo("user:hiassistant:city=Paris;tool:sunuser:so".length());
    }

    @Test
    void theAnswerContinuesALastMessageOfTheAssistant() throws IOException {
        String open = "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, "
                + "{\"role\": \"assistant\", \"content\": \"I am\"}]";
        assertThat(count(open)).isEqualTo("user:hiassistant:I am".length());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"x\": 1 | has no field 'x'",
                "\"temperature\": 0 | max_tokens is missing",
                "\"max_tokens\": 0 | max_tokens is 0",
                "\"max_tokens\": 600 | maximum context length is 512",
                "\"max_tokens\": 1, \"tools\": [{\"name\": \"f\", \"input_schema\": {}}] | --tool-call-parser",
                "\"max_tokens\": 1, \"tool_choice\": {\"type\": \"any\"} | there are no tools",
                "\"max_tokens\": 1, \"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 9} | no reasoning",
                "\"max_tokens\": 1, \"stop_sequences\": \"x\" | a list of strings",
                "\"max_tokens\": 1, \"system\": {} | system is an empty object",
                "\"max_tokens\": 1, \"system\": [{\"type\": \"image\"}] | system.0"
            })
    void errorsHaveAnthropicsFormat(String fields, String words) throws IOException {
        RawClient.Answer answer = ask(fields);
        assertThat(answer.status()).as(answer.body()).isEqualTo(400);
        assertThat(answer.json().path("type").asString()).isEqualTo("error");
        assertThat(answer.json().at("/error/type").asString()).isEqualTo("invalid_request_error");
        assertThat(answer.error()).contains(words);
        assertThat(answer.json().path("request_id").asString())
                .isEqualTo(answer.headers().get("x-request-id"));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "[] | at least one message",
                "[{\"role\": \"system\", \"content\": \"x\"}] | messages.0.role",
                "[{\"role\": \"user\", \"content\": 1}] | messages.0.content",
                "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}] | messages.0.content.0 of the user",
                "[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}] | messages.0.content.0",
                "[{\"role\": \"user\", \"content\": [{\"type\": \"tool_use\"}]}] | 'tool_use'",
                "[{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"name\": \"f\"}]}] | input object",
                "[{\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\"}]}] | no content"
            })
    void messagesThatCannotBeReadAreNamed(String messages, String words) throws IOException {
        RawClient.Answer answer = server.post(MESSAGES + "/count_tokens", "{\"messages\": " + messages + "}");
        assertThat(answer.status()).as(answer.body()).isEqualTo(400);
        assertThat(answer.error()).contains(words);
    }

    @Test
    void refusalsBeforeTheBodyHaveAnthropicsFormatToo() throws IOException {
        try (RunningServer guarded =
                        new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"));
                RawClient client = guarded.connect()) {
            client.post(MESSAGES, "{}");
            RawClient.Answer answer = client.read();
            assertThat(answer.status()).isEqualTo(401);
            assertThat(answer.json().at("/error/type").asString()).isEqualTo("authentication_error");
            client.post(MESSAGES, "{}", "x-api-key: secret", "anthropic-version: 2023-06-01");
            assertThat(client.read().status()).isEqualTo(400);
        }
        RawClient.Answer model = ask("\"max_tokens\": 1, \"model\": \"other\"");
        assertThat(model.status()).isEqualTo(404);
        assertThat(model.json().at("/error/type").asString()).isEqualTo("not_found_error");
        assertThat(server.get(MESSAGES).json().at("/error/type").asString()).isEqualTo("invalid_request_error");
    }

    @Test
    void failuresEndAnswersAndStreams() throws IOException {
        try (RunningServer held = new RunningServer()) {
            held.executor.hold();
            String body = "{" + HI + ", \"max_tokens\": 3, \"timeout\": 0.01";
            RawClient.Answer late = held.post(MESSAGES, body + "}");
            assertThat(late.status()).isEqualTo(408);
            assertThat(late.json().at("/error/type").asString()).isEqualTo("timeout_error");
            List<ServerEvents.Event> events = ServerEvents.of(
                    held.post(MESSAGES, body + ", \"stream\": true}").body());
            assertThat(ServerEvents.names(events)).containsExactly("message_start", "ping", "error");
        }
    }
}
