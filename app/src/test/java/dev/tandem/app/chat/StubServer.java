package dev.tandem.app.chat;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** A server that answers with events of a script, and keeps the requests. */
final class StubServer implements AutoCloseable {
    static final String MODEL = "stub";
    private static final ObjectMapper JSON = new ObjectMapper();

    final List<JsonNode> requests = new CopyOnWriteArrayList<>();
    final List<String> keys = new CopyOnWriteArrayList<>();
    /** Counted down when the client has left an answer without end. */
    final CountDownLatch left = new CountDownLatch(1);

    private final HttpServer server;
    private volatile String events = "";
    private final Queue<Refusal> refusals = new ConcurrentLinkedQueue<>();
    private final Queue<Refusal> refusalsOfModels = new ConcurrentLinkedQueue<>();
    private volatile boolean endless;

    private record Refusal(int status, String body) {}

    StubServer() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Executors.newVirtualThreadPerTaskExecutor());
        server.createContext("/v1/models", exchange -> {
            keys.add(String.valueOf(exchange.getRequestHeaders().getFirst("Authorization")));
            Refusal refused = refusalsOfModels.poll();
            if (refused != null) {
                send(exchange, refused.status(), refused.body());
                return;
            }
            send(exchange, 200, "{\"data\": [{\"id\": \"" + MODEL + "\"}]}");
        });
        server.createContext("/v1/chat/completions", this::answer);
        server.start();
    }

    String address() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Answers from now on with these parts of text. */
    void say(String... parts) {
        StringBuilder out = new StringBuilder();
        for (String part : parts) {
            out.append(event("content", part));
        }
        script(out + "data: {\"choices\": [], \"usage\": {\"completion_tokens\": " + parts.length
                + "}}\n\ndata: [DONE]\n\n");
    }

    static String event(String field, String text) {
        return "data: {\"choices\": [{\"delta\": {\"" + field + "\": " + JSON.writeValueAsString(text) + "}}]}\n\n";
    }

    void script(String newEvents) {
        events = newEvents;
        endless = false;
    }

    /** Refuses the next request that is not refused yet, and answers the others as before. */
    void refuseOnce(int status, String body) {
        refusals.add(new Refusal(status, body));
    }

    /** Refuses the next question for models in the same way. */
    void refuseModelsOnce(int status, String body) {
        refusalsOfModels.add(new Refusal(status, body));
    }

    /** Sends this part from now on, and comments until the client leaves. */
    void begin(String part) {
        script(event("content", part));
        endless = true;
    }

    private void answer(HttpExchange exchange) throws IOException {
        requests.add(JSON.readTree(exchange.getRequestBody().readAllBytes()));
        Refusal refused = refusals.poll();
        if (refused != null) {
            send(exchange, refused.status(), refused.body());
            return;
        }
        if (!endless) {
            send(exchange, 200, events);
            return;
        }
        exchange.sendResponseHeaders(200, 0);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(events.getBytes(StandardCharsets.UTF_8));
            out.flush();
            while (true) {
                out.write(": alive\n\n".getBytes(StandardCharsets.UTF_8));
                out.flush();
            }
        } catch (IOException e) {
            left.countDown();
        }
    }

    private static void send(HttpExchange exchange, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        try (OutputStream out = exchange.getResponseBody()) {
            out.write(bytes);
        }
    }

    @Override
    public void close() {
        server.stop(0);
    }
}
