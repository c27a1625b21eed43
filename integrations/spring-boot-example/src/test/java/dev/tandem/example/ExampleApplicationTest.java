package dev.tandem.example;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.app.DummyModel;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.web.server.LocalServerPort;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;

/** The application on a free port, with a small model of random weights. */
@SpringBootTest(
        webEnvironment = SpringBootTest.WebEnvironment.RANDOM_PORT,
        properties = {
            "tandem.device=cpu",
            "tandem.threads=1",
            "tandem.kv-cache-memory=4MB",
            "tandem.host-kv=0B",
            "tandem.further=--load-format,dummy",
            "tandem.chat.temperature=0",
            "tandem.chat.max-tokens=8",
        })
class ExampleApplicationTest {
    @TempDir
    private static Path folder;

    @LocalServerPort
    private int port;

    @DynamicPropertySource
    static void model(DynamicPropertyRegistry properties) {
        properties.add("tandem.model", () -> DummyModel.write(folder).toString());
    }

    private String get(String path) throws IOException, InterruptedException {
        try (HttpClient client = HttpClient.newHttpClient()) {
            HttpResponse<String> answer = client.send(
                    HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                            .build(),
                    HttpResponse.BodyHandlers.ofString());
            assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
            return answer.body();
        }
    }

    @Test
    void aQuestionIsAnsweredWholeAndAsAStream() throws IOException, InterruptedException {
        String whole = get("/ask?question=w3+w4");
        assertThat(whole).matches("(w\\d+){8}");
        String events = get("/stream?question=w3+w4");
        String streamed = events.replaceAll("(?m)^data:", "").replaceAll("\n\n", "").strip();
        assertThat(streamed).isEqualTo(whole);
        assertThat(events.split("data:")).hasSizeGreaterThan(3);
    }

    @Test
    void theActuatorKnowsTheModel() throws IOException, InterruptedException {
        assertThat(get("/actuator/health"))
                .contains("\"tandem\":{\"details\":{\"model\":")
                .contains("\"status\":\"UP\"");
        get("/ask?question=w5");
        assertThat(get("/actuator/metrics")).contains("vllm:num_requests_running", "gen_ai.client.operation");
        assertThat(get("/actuator/metrics/vllm:generation_tokens_total"))
                .containsPattern("\"statistic\":\"COUNT\",\"value\":[1-9]");
    }
}
