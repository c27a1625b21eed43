package dev.tandem.server.trace;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** A collector on a free port of the loopback address, which keeps what it gets and answers by a script. */
public final class FakeCollector implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long LIMIT_SECONDS = 60;

    /** A post and its answer's status. */
    record Post(Headers headers, JsonNode body, int status) {}

    /** What the collector answers. */
    record Answer(int status, Map<String, String> headers, String body) {
        static final Answer OK = new Answer(200, Map.of(), "{}");
    }

    private final HttpServer http;
    private final BlockingQueue<Post> posts = new LinkedBlockingQueue<>();

    /** A collector that takes everything. */
    public FakeCollector() throws IOException {
        this(post -> Answer.OK);
    }

    /** @param script the answer to the post of this number, from 0 */
    FakeCollector(IntFunction<Answer> script) throws IOException {
        http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        int[] count = {0};
        http.createContext("/v1/traces", exchange -> {
            JsonNode body = JSON.readTree(exchange.getRequestBody().readAllBytes());
            Answer answer = script.apply(count[0]++);
            answer.headers().forEach(exchange.getResponseHeaders()::set);
            posts.add(new Post(exchange.getRequestHeaders(), body, answer.status()));
            byte[] bytes = answer.body().getBytes();
            exchange.sendResponseHeaders(answer.status(), bytes.length);
            exchange.getResponseBody().write(bytes);
            exchange.close();
        });
        http.start();
    }

    URI endpoint() {
        return URI.create("http://127.0.0.1:" + http.getAddress().getPort() + "/v1/traces");
    }

    /** An exporter to this collector that waits for nothing. */
    public SpanExporter exporter() {
        return new SpanExporter(
                new OtlpSettings(endpoint(), Map.of("x-key", "secret"), Map.of("service.name", "test")),
                "1.2.3",
                new SpanExporter.Delays(Duration.ZERO, Duration.ZERO));
    }

    Post next() throws InterruptedException {
        Post post = posts.poll(LIMIT_SECONDS, TimeUnit.SECONDS);
        if (post == null) {
            throw new AssertionError("the collector got nothing in " + LIMIT_SECONDS + " s");
        }
        return post;
    }

    /** Waits for spans, whatever posts they come in. */
    public List<JsonNode> spans(int count) throws InterruptedException {
        List<JsonNode> spans = new ArrayList<>();
        while (spans.size() < count) {
            next().body().at("/resourceSpans/0/scopeSpans/0/spans").forEach(spans::add);
        }
        return spans;
    }

    @Override
    public void close() {
        http.stop(0);
    }
}
