package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.trace.FakeCollector;
import dev.tandem.server.trace.SpanExporter;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** The spans that a collector gets from requests over HTTP. */
@Timeout(120)
class TracingTest {
    private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
    private static final String SPAN = "00f067aa0ba902b7";

    private FakeCollector collector;
    private SpanExporter exporter;
    private RunningServer server;

    @BeforeEach
    void start() throws IOException {
        collector = new FakeCollector();
        exporter = collector.exporter();
        server = RunningServer.traced(exporter);
    }

    @AfterEach
    void stop() {
        server.close();
        exporter.close();
        collector.close();
    }

    private RawClient.Answer post(String path, String headers, String json) throws IOException {
        try (RawClient client = server.connect()) {
            client.send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + headers
                    + "Content-Length: " + json.length() + "\r\n\r\n" + json);
            return client.read();
        }
    }

    /** The next spans by name; names occur once. */
    private Map<String, JsonNode> spans(int count) throws InterruptedException {
        Map<String, JsonNode> byName = new HashMap<>();
        for (JsonNode span : collector.spans(count)) {
            assertThat(byName.put(span.get("name").asString(), span)).isNull();
        }
        assertThat(byName).hasSize(count);
        return byName;
    }

    private static String attribute(JsonNode span, String key) {
        return StreamSupport.stream(span.get("attributes").spliterator(), false)
                .filter(attribute -> attribute.get("key").asString().equals(key))
                .map(attribute -> attribute.get("value").iterator().next().asString())
                .findFirst()
                .orElse("");
    }

    private static long begin(JsonNode span) {
        return Long.parseLong(span.get("startTimeUnixNano").asString());
    }

    private static long end(JsonNode span) {
        return Long.parseLong(span.get("endTimeUnixNano").asString());
    }

    @Test
    void aRequestIsASpanOfItsClientsTraceWithItsPhasesAsChildren() throws IOException, InterruptedException {
        RawClient.Answer answer = post(
                "/v1/completions",
                "traceparent: 00-" + TRACE + "-" + SPAN + "-01\r\ntracestate: v=1\r\n",
                "{\"prompt\": \"abc\", \"max_tokens\": 3, \"temperature\": 0.5, \"seed\": 7}");
        assertThat(answer.status()).isEqualTo(200);
        Map<String, JsonNode> spans = spans(5);
        assertThat(spans.values()).allSatisfy(span -> {
            assertThat(span.get("traceId").asString()).isEqualTo(TRACE);
            assertThat(span.get("traceState").asString()).isEqualTo("v=1");
        });
        JsonNode http = spans.get("POST /v1/completions");
        JsonNode generation = spans.get("text_completion fake");
        assertThat(http.get("parentSpanId").asString()).isEqualTo(SPAN);
        assertThat(http.get("kind").asInt()).isEqualTo(2);
        assertThat(attribute(http, "http.response.status_code")).isEqualTo("200");
        assertThat(attribute(http, "http.request.method")).isEqualTo("POST");
        assertThat(generation.get("parentSpanId").asString())
                .isEqualTo(http.get("spanId").asString());
        assertThat(attribute(generation, "gen_ai.operation.name")).isEqualTo("text_completion");
        assertThat(attribute(generation, "gen_ai.request.model")).isEqualTo("fake");
        assertThat(attribute(generation, "gen_ai.usage.input_tokens")).isEqualTo("3");
        assertThat(attribute(generation, "gen_ai.usage.output_tokens")).isEqualTo("3");
        assertThat(attribute(generation, "gen_ai.request.max_tokens")).isEqualTo("3");
        assertThat(attribute(generation, "gen_ai.request.temperature")).isEqualTo("0.5");
        assertThat(attribute(generation, "gen_ai.request.seed")).isEqualTo("7");
        assertThat(generation.at("/attributes").toString()).contains("{\"values\":[{\"stringValue\":\"length\"}]}");
        for (String phase : List.of("queue", "prefill", "decode")) {
            assertThat(spans.get(phase).get("parentSpanId").asString())
                    .isEqualTo(generation.get("spanId").asString());
        }
        assertThat(begin(spans.get("queue"))).isEqualTo(begin(generation));
        assertThat(end(spans.get("queue"))).isEqualTo(begin(spans.get("prefill")));
        assertThat(end(spans.get("prefill"))).isEqualTo(begin(spans.get("decode")));
        assertThat(end(spans.get("decode"))).isEqualTo(end(generation));
        assertThat(generation.at("/events/0/name").asString()).isEqualTo("tandem.kv.moved");
        assertThat(generation.at("/events/0/attributes/0/value/stringValue").asString())
                .isEqualTo("gpu");
    }

    @Test
    void aRequestWithoutATraceBeginsOne() throws IOException, InterruptedException {
        post("/v1/completions", "traceparent: nonsense\r\n", "{\"prompt\": \"abc\", \"max_tokens\": 2}");
        Map<String, JsonNode> spans = spans(5);
        JsonNode http = spans.get("POST /v1/completions");
        assertThat(http.has("parentSpanId")).isFalse();
        assertThat(http.get("traceId").asString()).matches("[0-9a-f]{32}");
        assertThat(spans.values())
                .allSatisfy(span -> assertThat(span.get("traceId")).isEqualTo(http.get("traceId")));
    }

    @Test
    void aClientThatDoesNotRecordItsTraceGetsNoSpans() throws IOException, InterruptedException {
        post(
                "/v1/completions",
                "traceparent: 00-" + TRACE + "-" + SPAN + "-00\r\n",
                "{\"prompt\": \"abc\", \"max_tokens\": 2}");
        post("/tokenize", "", "{\"prompt\": \"abc\"}");
        post("/v1/completions", "", "{\"prompt\": \"abc\", \"max_tokens\": 2}");
        assertThat(spans(5).values())
                .noneMatch(span -> span.get("traceId").asString().equals(TRACE));
    }

    @Test
    void theChoicesOfARequestAreSpansOfTheirOwn() throws IOException, InterruptedException {
        post("/v1/completions", "", "{\"prompt\": \"abc\", \"max_tokens\": 2, \"n\": 2}");
        List<JsonNode> spans = collector.spans(9);
        assertThat(spans.stream().map(span -> span.get("name").asString()).sorted())
                .containsExactlyElementsOf(Stream.of(
                                "POST /v1/completions",
                                "decode",
                                "decode",
                                "prefill",
                                "prefill",
                                "queue",
                                "queue",
                                "text_completion fake",
                                "text_completion fake")
                        .toList());
    }

    @Test
    void aRefusedRequestHasAStatusAndNoPhases() throws IOException, InterruptedException {
        post("/v1/chat/completions", "", "{\"messages\": 5}");
        JsonNode http = spans(1).get("POST /v1/chat/completions");
        assertThat(attribute(http, "http.response.status_code")).isEqualTo("400");
        assertThat(http.has("status")).isFalse(); // a client's mistake is no failure of the server
    }
}
