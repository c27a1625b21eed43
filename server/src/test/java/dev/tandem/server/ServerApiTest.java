package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.http.AccessLog;
import dev.tandem.server.openai.ApiKeys;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

/** The endpoints that describe the server and its model, request ids and API keys. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ServerApiTest {
    private static String get(String path, String... headers) {
        return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + String.join("", List.of(headers)) + "\r\n";
    }

    @Test
    void oneModelIsDescribedAsInTheList() throws IOException {
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer one = server.get("/v1/models/fake");
            assertThat(one.status()).isEqualTo(200);
            assertThat(one.json()).isEqualTo(server.get("/v1/models").json().at("/data/0"));
            assertThat(server.get("/v1/models/f%61ke").status()).isEqualTo(200);
            for (String other : List.of("other", "a/b", "fake/", "%", "fake+", "%zz")) {
                RawClient.Answer answer = server.get("/v1/models/" + other);
                assertThat(answer.status()).as(other).isEqualTo(404);
                assertThat(answer.error()).contains("'fake' is");
            }
            assertThat(server.get("/v1/models/").status()).isEqualTo(404);
        }
    }

    @Test
    void pingSaysWhatHealthSaysWithoutAKey() throws IOException {
        try (RunningServer server =
                new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"))) {
            assertThat(server.get("/ping").body())
                    .isEqualTo(server.get("/health").body());
            assertThat(server.get("/load").status()).isEqualTo(401);
        }
    }

    @Test
    void loadCountsRequestsInProgress() throws IOException {
        try (RunningServer server = new RunningServer()) {
            assertThat(server.get("/load").json().path("server_load").asInt(-1)).isZero();
            server.executor.hold();
            List<RawClient> clients = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                RawClient client = server.connect();
                client.post("/v1/completions", "{\"prompt\": \"ab\", \"max_tokens\": 3}");
                clients.add(client);
            }
            while (server.get("/load").json().path("server_load").asInt() < 3
                    && !Thread.currentThread().isInterrupted()) { // the time limit of the test bounds it
                Thread.onSpinWait();
            }
            server.executor.release();
            for (RawClient client : clients) {
                assertThat(client.read().status()).isEqualTo(200);
                client.close();
            }
        }
    }

    @Test
    void theTokenizerIsDescribed() throws IOException {
        try (RunningServer server = new RunningServer()) {
            RawClient.Answer answer = server.get("/tokenizer_info");
            assertThat(answer.json().path("vocab_size").asInt()).isEqualTo(FakeTokenizer.TOKENS);
            assertThat(answer.json().path("model_max_length").asInt()).isEqualTo(RunningServer.CONTEXT);
            assertThat(answer.json().path("tokenizer_class").asString()).isEqualTo("byte_level");
            assertThat(answer.json().path("chat_template").asString()).contains("m.role");
            assertThat(answer.json().path("eos_token").isNull())
                    .as("the model has no end token")
                    .isTrue();
        }
        try (ScriptedServer server = new ScriptedServer("{{ messages }}", prompt -> "");
                RawClient client = new RawClient(server.port())) {
            client.send("GET /tokenizer_info HTTP/1.1\r\nHost: localhost\r\n\r\n");
            JsonNode described = client.read().json();
            assertThat(described.path("eos_token").asString()).isEqualTo("<|im_end|>");
            assertThat(described.at("/eos_token_ids/0").asInt()).isEqualTo(ScriptedModel.END);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"/health", "/v1/models", "/nowhere", "/v1/completions"})
    void everyAnswerHasTheClientsRequestIdOrANewOne(String path) throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send(get(path, "X-Request-Id: mine-7\r\n"));
            assertThat(client.read().headers()).containsEntry("x-request-id", "mine-7");
            client.send(get(path) + get(path, "X-Request-Id: " + "x".repeat(65) + "\r\n"));
            String first = client.read().headers().get("x-request-id");
            String second = client.read().headers().get("x-request-id");
            assertThat(List.of(first, second)).doesNotHaveDuplicates().allMatch(id -> id.matches("[0-9a-f]{32}"));
        }
    }

    @Test
    void eachOfSeveralKeysIsAcceptedInEitherHeader() throws IOException {
        ApiKeys keys = ApiKeys.of(List.of("first", "second"));
        assertThat(keys.toString()).doesNotContain("first").doesNotContain("second");
        try (RunningServer server = new RunningServer(
                        RunningServer.LIMITS, RunningServer.ORIGINS, Optional.empty(), keys, AccessLog.OFF);
                RawClient client = server.connect()) {
            for (String header : List.of(
                    "Authorization: Bearer first",
                    "authorization: bearer second",
                    "X-Api-Key: first",
                    "x-api-key: second")) {
                client.send(get("/v1/models", header + "\r\n"));
                assertThat(client.read().status()).as(header).isEqualTo(200);
            }
            for (String header : List.of(
                    "Authorization: Bearer third",
                    "Authorization: first",
                    "X-Api-Key: ",
                    "X-Api-Key: firstsecond",
                    "X: y")) {
                client.send(get("/v1/models", header + "\r\n"));
                assertThat(client.read().status()).as(header).isEqualTo(401);
            }
        }
    }
}
