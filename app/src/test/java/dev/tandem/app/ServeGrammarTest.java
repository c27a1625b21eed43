package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Structured output of the default model over HTTP. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ServeGrammarTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static TestServer server;

    @BeforeAll
    static void start() throws IOException {
        ModelGrammar.library();
        server = new TestServer();
    }

    @AfterAll
    static void stop() {
        if (server != null) {
            server.close();
        }
    }

    private static HttpResponse<String> ask(String fields) throws IOException, InterruptedException {
        return server.post(
                "/v1/chat/completions",
                "{\"messages\": [{\"role\": \"user\", \"content\": \"Describe a person.\"}], \"max_tokens\": 120, "
                        + fields + "}");
    }

    @Test
    void answersMatchTheirSchema() throws Exception {
        String format = "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"person\", "
                + "\"strict\": true, \"schema\": {\"type\": \"object\", \"properties\": {\"name\": {\"type\": "
                + "\"string\", \"maxLength\": 20}, \"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 120}, "
                + "\"hobby\": {\"enum\": [\"chess\", \"running\"]}}, \"required\": [\"name\", \"age\", \"hobby\"], "
                + "\"additionalProperties\": false}}}";
        for (String more : new String[] {"", ", \"temperature\": 0", ", \"n\": 2, \"logprobs\": true"}) {
            HttpResponse<String> answer = ask(format + more);
            assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
            for (JsonNode choice : JSON.readTree(answer.body()).path("choices")) {
                assertThat(choice.path("finish_reason").asString())
                        .as(answer.body())
                        .isEqualTo("stop");
                JsonNode person = JSON.readTree(choice.at("/message/content").asString());
                assertThat(person.propertyNames()).containsExactly("name", "age", "hobby");
                assertThat(person.path("age").asInt()).isBetween(0, 120);
                assertThat(person.path("hobby").asString()).isIn("chess", "running");
            }
        }
    }

    @Test
    void streamsMatchTheirRegularExpression() throws Exception {
        HttpResponse<String> answer =
                ask("\"stream\": true, \"structured_outputs\": {\"regex\": \"[A-Z]{3}-[0-9]{2}\"}");
        StringBuilder text = new StringBuilder();
        answer.body()
                .lines()
                .filter(line -> line.startsWith("data: {"))
                .forEach(line -> text.append(JSON.readTree(line.substring(6))
                        .at("/choices/0/delta/content")
                        .asString("")));
        assertThat(text.toString()).matches("[A-Z]{3}-[0-9]{2}");
    }

    @Test
    void unsupportedSchemasAreRefusedWithTheReason() throws Exception {
        HttpResponse<String> answer = ask("\"guided_json\": {\"type\": \"array\", \"uniqueItems\": true}");
        assertThat(answer.statusCode()).isEqualTo(400);
        JsonNode error = JSON.readTree(answer.body()).path("error");
        assertThat(error.path("param").asString()).isEqualTo("guided_json");
        assertThat(error.path("message").asString()).contains("uniqueItems");
    }
}
