package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;

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

    private static JsonNode message(LocalServer server, String fields) throws IOException, InterruptedException {
        HttpResponse<String> answer = server.post(
                "/v1/chat/completions", "{\"temperature\": 0, \"max_tokens\": 60, " + TOOLS + ", " + fields + "}");
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
        return JSON.readTree(answer.body()).at("/choices/0/message");
    }

    /** Qwen2.5 Coder leaves the markers of its template out. */
    @Test
    void aCallThatNobodyDemandsIsRead() throws IOException, InterruptedException {
        try (LocalServer server = new LocalServer(model())) {
            JsonNode first = message(server, "\"messages\": [{\"role\": \"user\", \"content\": \"" + QUESTION + "\"}]");
            assertThat(first.at("/tool_calls/0/function/name").asString())
                    .as(first.toString())
                    .isEqualTo("weather");
            assertThat(first.at("/tool_calls/0/function/arguments").asString()).contains("Bern");
        }
    }

    /** The call is demanded, and then forbidden: a small model does not decide well when to call. */
    @Test
    void theModelCallsTheToolAndAnswersWithItsResult() throws IOException, InterruptedException {
        try (LocalServer server = new LocalServer(model())) {
            ArrayNode messages = JSON.createArrayNode();
            messages.addObject().put("role", "user").put("content", QUESTION);
            JsonNode first = message(server, "\"tool_choice\": \"required\", \"messages\": " + messages);
            JsonNode call = first.at("/tool_calls/0");
            assertThat(call.at("/function/name").asString())
                    .as(first.toString())
                    .isEqualTo("weather");
            JsonNode arguments = JSON.readTree(call.at("/function/arguments").asString());
            assertThat(arguments.path("city").asString()).contains("Bern");
            messages.add(first)
                    .addObject()
                    .put("role", "tool")
                    .put("tool_call_id", call.path("id").asString())
                    .put("content", "21 degrees");
            JsonNode last = message(server, "\"tool_choice\": \"none\", \"messages\": " + messages);
            assertThat(last.path("content").asString()).contains("21");
        }
    }
}
