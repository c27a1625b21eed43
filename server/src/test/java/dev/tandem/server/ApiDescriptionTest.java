package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** /openapi.json against what the server does, and the reference page against /openapi.json. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ApiDescriptionTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Path PAGE = Path.of("../docs/reference/http-api.md");
    /** A valid body of every endpoint that has one. */
    private static final Map<String, String> BODIES = Map.of(
            "/v1/chat/completions",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_completion_tokens\": 1}",
            "/v1/completions",
            "{\"prompt\": \"hi\", \"max_tokens\": 1}",
            "/v1/messages",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": 1}",
            "/v1/messages/count_tokens",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}",
            "/v1/responses",
            "{\"input\": \"hi\", \"max_output_tokens\": 1}",
            "/tokenize",
            "{\"prompt\": \"hi\"}",
            "/detokenize",
            "{\"tokens\": [1]}");

    private static JsonNode schema(JsonNode description, JsonNode operation) {
        String reference = operation
                .at("/requestBody/content/application~1json/schema/$ref")
                .asString();
        return description.at(reference.substring(1));
    }

    @Test
    void everyPathIsDescribedAndServed() throws IOException {
        try (RunningServer server = new RunningServer()) {
            JsonNode description = server.get("/openapi.json").json();
            String page = Files.readString(PAGE);
            List<String> bodies = new ArrayList<>();
            for (Map.Entry<String, JsonNode> path : description.path("paths").properties()) {
                assertThat(page).contains("`" + path.getKey() + "`");
                String url = path.getKey().replace("{id}", "fake");
                if (path.getValue().has("get")) {
                    RawClient.Answer answer = server.get(url);
                    assertThat(path.getValue().at("/get/responses").has(Integer.toString(answer.status())))
                            .as(url + " " + answer.status())
                            .isTrue();
                } else {
                    String body = BODIES.getOrDefault(url, "");
                    RawClient.Answer answer = server.post(url, body);
                    assertThat(path.getValue().at("/post/responses").has(Integer.toString(answer.status())))
                            .as(url + " " + answer.status())
                            .isTrue();
                    if (path.getValue().path("post").has("requestBody")) {
                        assertThat(answer.status()).as(url).isEqualTo(200);
                        bodies.add(url);
                    }
                }
            }
            assertThat(bodies).containsExactlyInAnyOrderElementsOf(BODIES.keySet());
        }
    }

    @Test
    void everyTypeIsEnforced() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            JsonNode description = server.get("/openapi.json").json();
            int checked = 0;
            for (String path : BODIES.keySet()) {
                JsonNode operation = description.path("paths").path(path).path("post");
                for (Map.Entry<String, JsonNode> field :
                        schema(description, operation).path("properties").properties()) {
                    String type = field.getValue().at("/type/0").asString("");
                    if (type.isEmpty()) {
                        continue;
                    }
                    ObjectNode body = (ObjectNode) JSON.readTree(BODIES.get(path));
                    if (type.equals("boolean") || type.equals("string")) {
                        body.put(field.getKey(), 1);
                    } else {
                        body.put(field.getKey(), true);
                    }
                    client.post(path, body.toString());
                    RawClient.Answer answer = client.read();
                    assertThat(answer.status()).as(path + " " + body).isEqualTo(400);
                    assertThat(answer.error()).as(path + " " + body).contains(field.getKey());
                    checked++;
                }
            }
            assertThat(checked).isGreaterThan(60);
        }
    }

    @Test
    void statusesOfTheConnectionAreDescribed() throws IOException {
        String host = " HTTP/1.1\r\nHost: localhost\r\n";
        Map<Integer, String> requests = Map.of(
                403, "GET /version" + host + "Origin: https://evil.example.org\r\n\r\n",
                405, "DELETE /version" + host + "\r\n",
                414, "GET /version?" + "x".repeat(20_000) + host + "\r\n",
                417, "GET /version" + host + "Expect: x\r\n\r\n",
                431, "GET /version" + host + "X: " + "x".repeat(20_000) + "\r\n\r\n");
        try (RunningServer server = new RunningServer()) {
            JsonNode paths = server.get("/openapi.json").json().path("paths");
            for (Map.Entry<Integer, String> request : requests.entrySet()) {
                try (RawClient client = server.connect()) {
                    client.send(request.getValue());
                    assertThat(client.read().status()).isEqualTo(request.getKey());
                }
                for (JsonNode path : paths) {
                    for (JsonNode operation : path) {
                        assertThat(operation
                                        .path("responses")
                                        .has(request.getKey().toString()))
                                .as(request.getKey() + " of " + operation)
                                .isTrue();
                    }
                }
            }
        }
    }

    @Test
    void onlyListedFieldsExistAndTheDescriptionNeedsNoKey() throws IOException {
        try (RunningServer server =
                new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"))) {
            JsonNode description = server.get("/openapi.json").json();
            JsonNode chat = description.at("/components/schemas/chat_request");
            assertThat(chat.path("additionalProperties").asBoolean(true)).isFalse();
            assertThat(chat.at("/properties/guided_whitespace_pattern/type").asString())
                    .isEqualTo("null");
            assertThat(chat.at("/properties/temperature/type/0").asString()).isEqualTo("number");
            assertThat(description.at("/paths/~1v1~1models/get/security").size())
                    .isEqualTo(2);
            assertThat(description.at("/paths/~1health/get").has("security")).isFalse();
        }
    }
}
