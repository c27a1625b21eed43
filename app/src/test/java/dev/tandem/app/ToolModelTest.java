package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Tool calls of a real model, which the property {@code tandem.tools.model} names, as {@code qwen2.5-coder:0.5b}.
 *
 * <p>Such a model is large, so the test is excluded by default.
 */
@Tag("slow")
@Timeout(value = 10, unit = TimeUnit.MINUTES)
class ToolModelTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String QUESTION = "How warm is it in Bern now?";
    private static final String TOOLS = "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\", "
            + "\"description\": \"The weather of a city now\", \"parameters\": {\"type\": \"object\", "
            + "\"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}}]";

    private static String model() {
        String model = System.getProperty("tandem.tools.model", "");
        assumeFalse(model.isEmpty(), "the property tandem.tools.model is not set");
        return model;
    }

    /** Qwen2.5 Coder writes calls as JSON without markers, whatever its template says. */
    private static LocalServer start() {
        return new LocalServer(model(), "--tool-call-parser", "llama3_json");
    }

    @Test
    void theAgentAnswersWithWhatTheToolReturned() throws IOException, InterruptedException {
        try (LocalServer server = start()) {
            Process process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                            "-cp",
                            System.getProperty("java.class.path"),
                            "../server/src/test/clients/Agent.java",
                            server.address,
                            QUESTION)
                    .redirectErrorStream(true)
                    .start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor()).as(output).isZero();
            assertThat(output).contains("21");
        }
    }

    @Test
    void aDemandedCallCanBeRead() throws IOException, InterruptedException {
        try (LocalServer server = start()) {
            HttpResponse<String> answer = server.post(
                    "/v1/chat/completions",
                    "{\"temperature\": 0, \"max_tokens\": 100, \"tool_choice\": \"required\", " + TOOLS
                            + ", \"messages\": [{\"role\": \"user\", \"content\": \"" + QUESTION + "\"}]}");
            assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
            JsonNode function = JSON.readTree(answer.body()).at("/choices/0/message/tool_calls/0/function");
            assertThat(function.path("name").asString()).isEqualTo("weather");
            JsonNode arguments = JSON.readTree(function.path("arguments").asString());
            assertThat(arguments.path("city").asString()).as(answer.body()).contains("Bern");
        }
    }
}
