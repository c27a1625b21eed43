package dev.tandem.server.trace;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.TraceParent;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class SpanExporterTest {
    private static final TraceParent PARENT = new TraceParent("0af7651916cd43dd8448eb211c80319c", "", "", "chat");

    private static Span span(String name) {
        return new Span(
                PARENT, "b7ad6b7169203331", name, Span.Kind.SERVER, 1, 2, Map.of(), List.of(), Optional.empty());
    }

    @Test
    void writesASpanAsOtlpHasIt() throws IOException, InterruptedException {
        Map<String, Object> attributes = new LinkedHashMap<>();
        attributes.put("text", "a");
        attributes.put("flag", true);
        attributes.put("number", 1L << 60);
        attributes.put("fraction", 0.5);
        attributes.put("list", List.of("stop"));
        try (FakeCollector collector = new FakeCollector();
                SpanExporter exporter = collector.exporter()) {
            exporter.add(new Span(
                    new TraceParent(PARENT.traceId(), "00f067aa0ba902b7", "v=1", "chat"),
                    "b7ad6b7169203331",
                    "chat m",
                    Span.Kind.INTERNAL,
                    1_544_712_660_000_000_000L,
                    1_544_712_661_000_000_000L,
                    attributes,
                    List.of(new Span.Event("moved", 1_544_712_660_500_000_000L, Map.of("tier", "host"))),
                    Optional.of("it failed")));
            FakeCollector.Post post = collector.next();
            assertThat(post.headers().getFirst("Content-Type")).isEqualTo("application/json");
            assertThat(post.headers().getFirst("x-key")).isEqualTo("secret");
            assertThat(post.body().toString())
                    .isEqualTo("{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
                            + "\"value\":{\"stringValue\":\"test\"}}]},\"scopeSpans\":[{\"scope\":{"
                            + "\"name\":\"tandem\",\"version\":\"1.2.3\"},\"spans\":[{"
                            + "\"traceId\":\"0af7651916cd43dd8448eb211c80319c\",\"spanId\":\"b7ad6b7169203331\","
                            + "\"parentSpanId\":\"00f067aa0ba902b7\",\"traceState\":\"v=1\","
                            + "\"name\":\"chat m\",\"kind\":1,"
                            + "\"startTimeUnixNano\":\"1544712660000000000\","
                            + "\"endTimeUnixNano\":\"1544712661000000000\",\"attributes\":["
                            + "{\"key\":\"text\",\"value\":{\"stringValue\":\"a\"}},"
                            + "{\"key\":\"flag\",\"value\":{\"boolValue\":true}},"
                            + "{\"key\":\"number\",\"value\":{\"intValue\":\"1152921504606846976\"}},"
                            + "{\"key\":\"fraction\",\"value\":{\"doubleValue\":0.5}},"
                            + "{\"key\":\"list\",\"value\":{\"arrayValue\":{"
                            + "\"values\":[{\"stringValue\":\"stop\"}]}}}],"
                            + "\"events\":[{\"timeUnixNano\":\"1544712660500000000\",\"name\":\"moved\","
                            + "\"attributes\":[{\"key\":\"tier\",\"value\":{\"stringValue\":\"host\"}}]}],"
                            + "\"status\":{\"code\":2,\"message\":\"it failed\"}}]}]}]}");
        }
    }

    @Test
    void aBusyCollectorIsAskedAgain() throws IOException, InterruptedException {
        FakeCollector.Answer busy = new FakeCollector.Answer(503, Map.of("Retry-After", "0"), "");
        try (FakeCollector collector = new FakeCollector(post -> post < 2 ? busy : FakeCollector.Answer.OK);
                SpanExporter exporter = collector.exporter()) {
            exporter.add(span("a"));
            assertThat(List.of(
                            collector.next().status(),
                            collector.next().status(),
                            collector.next().status()))
                    .containsExactly(503, 503, 200);
            assertThat(exporter.dropped()).isZero();
        }
    }

    @Test
    void refusedSpansAreCountedAndNotSentAgain() throws IOException, InterruptedException {
        FakeCollector.Answer bad = new FakeCollector.Answer(400, Map.of(), "");
        FakeCollector.Answer partial =
                new FakeCollector.Answer(200, Map.of(), "{\"partialSuccess\":{\"rejectedSpans\":\"1\"}}");
        FakeCollector collector = new FakeCollector(post -> post == 0 ? bad : partial);
        try (collector) {
            SpanExporter exporter = collector.exporter();
            exporter.add(span("refused"));
            assertThat(collector.next().status()).isEqualTo(400);
            exporter.add(span("rejected"));
            assertThat(collector.spans(1).getFirst().get("name").asString()).isEqualTo("rejected");
            exporter.close();
            assertThat(exporter.dropped()).isEqualTo(2);
        }
    }

    @Test
    void spansBeyondTheQueueAreDroppedAndNobodyWaits() throws IOException, InterruptedException {
        CountDownLatch hung = new CountDownLatch(1);
        FakeCollector collector = new FakeCollector(post -> {
            await(hung);
            return FakeCollector.Answer.OK;
        });
        try (collector;
                SpanExporter exporter = collector.exporter()) {
            try {
                for (int i = 0; i < 10_000; i++) {
                    exporter.add(span("a"));
                }
                assertThat(exporter.dropped()).isBetween(10_000L - 2048 - 512, 10_000L - 2048);
            } finally {
                hung.countDown();
            }
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void closingSendsWhatIsQueued() throws IOException, InterruptedException {
        try (FakeCollector collector = new FakeCollector()) {
            OtlpSettings settings = new OtlpSettings(collector.endpoint(), Map.of(), Map.of());
            SpanExporter exporter =
                    new SpanExporter(settings, "1", new SpanExporter.Delays(Duration.ofHours(1), Duration.ofHours(1)));
            exporter.add(span("last"));
            exporter.close();
            assertThat(collector.spans(1).getFirst().get("name").asString()).isEqualTo("last");
            assertThat(exporter.dropped()).isZero();
        }
    }

    @Test
    void closingDoesNotWaitForACollectorThatIsNotThere() throws IOException {
        URI nobody;
        try (FakeCollector collector = new FakeCollector()) {
            nobody = collector.endpoint();
        }
        SpanExporter exporter = new SpanExporter(
                new OtlpSettings(nobody, Map.of(), Map.of()),
                "1",
                new SpanExporter.Delays(Duration.ZERO, Duration.ofHours(1)));
        exporter.add(span("lost"));
        exporter.close();
        assertThat(exporter.dropped()).isEqualTo(1);
    }
}
