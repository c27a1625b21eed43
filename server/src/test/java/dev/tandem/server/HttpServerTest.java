package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.OriginPolicy;
import java.io.IOException;
import java.net.SocketException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** HTTP against the real server: access, order of answers, size limits, slow clients and failures. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class HttpServerTest {
    private static final String COMPLETION = "{\"prompt\": \"ab\", \"max_tokens\": 3, \"ignore_eos\": true}";
    private static final String STREAM =
            "{\"prompt\": \"ab\", \"max_tokens\": 3, \"ignore_eos\": true, \"stream\": true}";
    private static final String LONG_STREAM =
            "{\"prompt\": \"ab\", \"max_tokens\": 500, \"ignore_eos\": true, \"stream\": true, \"logprobs\": 5}";

    private static String get(String path, String... headers) {
        return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + String.join("", List.of(headers)) + "\r\n";
    }

    // --- order of answers

    @Test
    void pipelinedRequestsAreAnsweredInOrder() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send(RawClient.request("/v1/completions", STREAM)
                    + get("/version")
                    + RawClient.request("/v1/completions", COMPLETION)
                    + get("/nowhere")
                    + get("/health"));
            assertThat(client.read().body()).contains("[DONE]");
            assertThat(client.read().body()).contains("version");
            assertThat(client.read().json().at("/usage/completion_tokens").asInt())
                    .isEqualTo(3);
            assertThat(client.read().status()).isEqualTo(404);
            assertThat(client.read().body()).contains("ok");
        }
    }

    @Test
    void aMalformedRequestIsAnsweredAfterTheOneBeforeIt() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            server.executor.hold();
            client.send(RawClient.request("/v1/completions", COMPLETION) + "NONSENSE\r\n\r\n");
            server.executor.release();
            assertThat(client.read().status()).isEqualTo(200);
            RawClient.Answer malformed = client.read();
            assertThat(malformed.status()).isEqualTo(400);
            assertThat(malformed.error()).contains("not valid HTTP");
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void manyPipelinedRequestsAreSlowedDownAndAllAnswered() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            server.executor.hold();
            client.send(RawClient.request("/v1/completions", COMPLETION).repeat(30));
            server.executor.release();
            for (int i = 0; i < 30; i++) {
                assertThat(client.read().status()).isEqualTo(200);
            }
            client.send(get("/health"));
            assertThat(client.read().status()).isEqualTo(200);
        }
    }

    // --- versions and methods

    @Test
    void aStreamToAnHttp10ClientIsNotChunkedAndEndsWithTheConnection() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send(RawClient.request("/v1/completions", STREAM, "Connection: keep-alive")
                    .replace("HTTP/1.1", "HTTP/1.0"));
            RawClient.Answer answer = client.read();
            assertThat(answer.headers()).doesNotContainKey("transfer-encoding").containsEntry("connection", "close");
            assertThat(answer.body()).startsWith("data: {").endsWith("data: [DONE]\n\n");
        }
    }

    @Test
    void anHttp10ClientMayKeepTheConnectionForWholeAnswers() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            for (int i = 0; i < 2; i++) {
                client.send("GET /version HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
                RawClient.Answer answer = client.read();
                assertThat(answer.status()).isEqualTo(200);
                assertThat(answer.headers()).containsEntry("connection", "keep-alive");
            }
            client.send("GET /version HTTP/1.0\r\n\r\n");
            assertThat(client.read().status()).isEqualTo(200);
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void headIsAnsweredLikeGetWithoutABody() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send(get("/health").replace("GET", "HEAD") + get("/version"));
            RawClient.Answer head = client.read(true);
            assertThat(head.status()).isEqualTo(200);
            assertThat(Integer.parseInt(head.headers().get("content-length"))).isPositive();
            assertThat(client.read().body()).contains("version");
        }
    }

    @Test
    void optionsListsTheMethodsOfAPath() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send(get("/v1/completions").replace("GET", "OPTIONS"));
            RawClient.Answer answer = client.read();
            assertThat(answer.status()).isEqualTo(204);
            assertThat(answer.headers())
                    .containsEntry("allow", "POST, OPTIONS")
                    .doesNotContainKey("access-control-allow-origin");
            client.send(get("/v1/completions"));
            assertThat(client.read().status()).isEqualTo(405);
        }
    }

    // --- keys

    @Test
    void aWrongKeyIsRefusedBeforeTheBodyIsSent() throws IOException {
        try (RunningServer server =
                        new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"));
                RawClient client = server.connect()) {
            String request = RawClient.request("/v1/completions", COMPLETION, "Authorization: Bearer wrong");
            int body = request.length() - COMPLETION.length();
            client.send(request.substring(0, body));
            RawClient.Answer answer = client.read();
            assertThat(answer.status()).isEqualTo(401);
            assertThat(answer.headers()).containsEntry("www-authenticate", "Bearer");
            client.send(request.substring(body)
                    + RawClient.request("/v1/completions", COMPLETION, "Authorization: Bearer secret"));
            assertThat(client.read().status()).isEqualTo(200);
        }
    }

    @Test
    void healthAndMetricsNeedNoKey() throws IOException {
        try (RunningServer server =
                new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"))) {
            assertThat(server.get("/health").status()).isEqualTo(200);
            assertThat(server.get("/metrics").body()).contains("vllm:num_requests_running");
            assertThat(server.get("/v1/models").status()).isEqualTo(401);
            assertThat(server.get("/nowhere").status()).isEqualTo(401);
            assertThat(server.post("/tokenize", "{\"prompt\": \"a\"}").status()).isEqualTo(401);
        }
    }

    // --- web pages

    @Test
    void onlyJsonIsAccepted() throws IOException {
        try (RunningServer server = new RunningServer()) {
            for (String type :
                    List.of("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")) {
                try (RawClient client = server.connect()) {
                    client.send(RawClient.request("/v1/completions", COMPLETION)
                            .replace(
                                    "Content-Type: application/json\r\n",
                                    type.isEmpty() ? "" : "Content-Type: " + type + "\r\n"));
                    RawClient.Answer answer = client.read();
                    assertThat(answer.status()).as(type).isEqualTo(415);
                    assertThat(answer.error()).contains("must be application/json");
                }
            }
            try (RawClient client = server.connect()) {
                client.send(RawClient.request("/v1/completions", COMPLETION).replace("/json", "/json; charset=utf-8"));
                assertThat(client.read().status()).isEqualTo(200);
            }
        }
    }

    @Test
    void foreignHostNamesAndPagesAreRefused() throws IOException {
        try (RunningServer server = new RunningServer()) {
            for (String host : List.of(
                    "localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "api.localhost", "192.168.1.7")) {
                assertThat(ask(server, host, "").status()).as(host).isEqualTo(200);
            }
            for (String host : List.of(
                    "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "")) {
                RawClient.Answer answer = ask(server, host, "");
                assertThat(answer.status()).as(host).isEqualTo(403);
                assertThat(answer.error()).contains("--allowed-hosts");
            }
            RawClient.Answer page = ask(server, "localhost", "Origin: https://evil.example\r\n");
            assertThat(page.status()).isEqualTo(403);
            assertThat(page.error()).contains("https://evil.example", "--allowed-origins");
            assertThat(page.headers()).doesNotContainKey("access-control-allow-origin");
        }
    }

    private static RawClient.Answer ask(RunningServer server, String host, String headers) throws IOException {
        try (RawClient client = server.connect()) {
            client.send("GET /health HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n");
            return client.read();
        }
    }

    @Test
    void allowedHostsAreServedByName() throws IOException {
        OriginPolicy policy = new OriginPolicy(true, List.of("gpu.example.org"), List.of());
        try (RunningServer server = new RunningServer(RunningServer.LIMITS, policy, Optional.empty())) {
            assertThat(ask(server, "gpu.example.org:8000", "").status()).isEqualTo(200);
            assertThat(ask(server, "other.example.org", "").status()).isEqualTo(403);
        }
        OriginPolicy open = new OriginPolicy(false, List.of(), List.of());
        try (RunningServer server = new RunningServer(RunningServer.LIMITS, open, Optional.empty())) {
            assertThat(ask(server, "gpu.example.org:8000", "").status()).isEqualTo(200);
        }
    }

    @Test
    void anAllowedPageMaySendAPreflightAndReadAnswers() throws IOException {
        String origin = "Origin: https://chat.example.org\r\n";
        try (RunningServer server =
                        new RunningServer(RunningServer.LIMITS, RunningServer.ORIGINS, Optional.of("secret"));
                RawClient client = server.connect()) {
            client.send(get(
                            "/v1/chat/completions",
                            origin,
                            "Access-Control-Request-Method: POST\r\n",
                            "Access-Control-Request-Headers: authorization, x-stainless-lang\r\n")
                    .replace("GET", "OPTIONS"));
            RawClient.Answer preflight = client.read();
            assertThat(preflight.status()).isEqualTo(204);
            assertThat(preflight.headers())
                    .containsEntry("access-control-allow-origin", "https://chat.example.org")
                    .containsEntry("access-control-allow-headers", "authorization, x-stainless-lang")
                    .containsEntry("vary", "Origin");
            client.post("/v1/completions", STREAM, origin.strip(), "Authorization: Bearer secret");
            RawClient.Answer stream = client.read();
            assertThat(stream.headers()).containsEntry("access-control-allow-origin", "https://chat.example.org");
            client.post("/v1/completions", STREAM, origin.strip());
            RawClient.Answer refused = client.read();
            assertThat(refused.status()).isEqualTo(401);
            assertThat(refused.headers()).containsEntry("access-control-allow-origin", "https://chat.example.org");
        }
    }

    // --- sizes

    @Test
    void aTooLargeContentLengthIsRefusedBeforeTheBodyIsSent() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + "Content-Length: 9000000\r\n\r\n");
            RawClient.Answer answer = client.read();
            assertThat(answer.status()).isEqualTo(413);
            assertThat(answer.error()).contains("limit of 65536 bytes", "--max-body-size");
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void aChunkedBodyIsCountedAsItArrives() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    + "Transfer-Encoding: chunked\r\n\r\n");
            client.send("8000\r\n" + "x".repeat(0x8000) + "\r\n8001\r\n" + "x".repeat(0x8001) + "\r\n");
            assertThat(client.read().status()).isEqualTo(413);
            assertThat(client.isClosed()).isTrue();
        }
    }

    @Test
    void tooManyHeadersAreRefused() throws IOException {
        try (RunningServer server = new RunningServer()) {
            try (RawClient client = server.connect()) {
                client.send(get("/health", "X-Many: 1\r\n".repeat(1000)));
                assertThat(client.read().status()).isEqualTo(431);
            }
            try (RawClient client = server.connect()) {
                client.send(get("/health?" + "x".repeat(10_000)));
                assertThat(client.read().status()).isEqualTo(414);
            }
        }
    }

    @Test
    void theMemoryOfAllBodiesTogetherIsBounded() throws IOException {
        HttpLimits limits = new HttpLimits(
                64 << 10,
                8 << 10,
                100 << 10,
                64,
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60));
        try (RunningServer server = new RunningServer(limits, RunningServer.ORIGINS, Optional.empty());
                RawClient first = server.connect();
                RawClient second = server.connect()) {
            String large = RawClient.request("/v1/completions", "x".repeat(60_000));
            first.send(large.substring(0, large.length() - 1));
            second.send(large.substring(0, large.length() - 1));
            // the second to arrive is refused; when the other is answered, there is room again
            RawClient refused = firstAnswered(List.of(first, second));
            RawClient.Answer answer = refused.read();
            assertThat(answer.status()).isEqualTo(503);
            assertThat(answer.headers()).containsEntry("retry-after", "1");
            RawClient other = refused == first ? second : first;
            other.send("x");
            assertThat(other.read().status()).isEqualTo(400);
            assertThat(server.post("/v1/completions", "x".repeat(60_000)).status())
                    .isEqualTo(400);
        }
    }

    /** Waits until one of them has something to read; the time limit of the test bounds it. */
    private static RawClient firstAnswered(List<RawClient> clients) throws IOException {
        while (!Thread.currentThread().isInterrupted()) {
            for (RawClient client : clients) {
                if (client.socket.getInputStream().available() > 0) {
                    return client;
                }
            }
            Thread.onSpinWait();
        }
        throw new IOException("no client has an answer");
    }

    @Test
    void connectionsBeyondTheLimitAreAnsweredWith503() throws IOException {
        HttpLimits limits = new HttpLimits(
                64 << 10,
                8 << 10,
                1 << 20,
                2,
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60));
        try (RunningServer server = new RunningServer(limits, RunningServer.ORIGINS, Optional.empty());
                RawClient first = server.connect();
                RawClient second = server.connect()) {
            first.send(get("/health"));
            assertThat(first.read().status()).isEqualTo(200);
            second.send(get("/health"));
            assertThat(second.read().status()).isEqualTo(200);
            try (RawClient third = server.connect()) {
                RawClient.Answer answer = third.read();
                assertThat(answer.status()).isEqualTo(503);
                assertThat(answer.error()).contains("2 connections are open", "--max-connections");
                assertThat(third.isClosed()).isTrue();
            }
            first.send(get("/health"));
            assertThat(first.read().status()).isEqualTo(200);
        }
    }

    @Test
    void expect100ContinueIsAnswered() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            String request = RawClient.request("/v1/completions", COMPLETION, "Expect: 100-continue");
            int body = request.length() - COMPLETION.length();
            client.send(RawClient.request("/v1/completions", COMPLETION) + request.substring(0, body));
            assertThat(client.read().status()).isEqualTo(200);
            assertThat(client.read().status()).isEqualTo(100);
            client.send(request.substring(body));
            assertThat(client.read().status()).isEqualTo(200);
            client.send(RawClient.request("/v1/completions", COMPLETION, "Expect: 200-ok")
                    .substring(0, body));
            assertThat(client.read().status()).isEqualTo(417);
        }
    }

    // --- slow clients

    @Test
    void aRequestMayArriveByteByByte() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.socket.setTcpNoDelay(true);
            for (char c : RawClient.request("/v1/completions", COMPLETION).toCharArray()) {
                client.send(String.valueOf(c));
            }
            assertThat(client.read().status()).isEqualTo(200);
        }
    }

    @Test
    void aClientThatReadsNothingIsDisconnectedAndItsRequestCancelled() throws Exception {
        HttpLimits limits = new HttpLimits(
                64 << 10,
                8 << 10,
                1 << 20,
                64,
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofSeconds(60),
                Duration.ofMillis(200));
        try (RunningServer server = new RunningServer(limits, RunningServer.ORIGINS, Optional.empty())) {
            List<RawClient> clients = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                RawClient client = server.connect();
                client.socket.setReceiveBufferSize(4096);
                clients.add(client);
                client.send(RawClient.request("/v1/completions", LONG_STREAM).repeat(100));
            }
            // the server buffers up to the water mark; then the write timeout closes the connection
            for (RawClient client : clients) {
                assertThatThrownBy(() -> {
                            while (true) {
                                client.send("x");
                            }
                        })
                        .isInstanceOf(IOException.class);
            }
            assertThat(server.post("/v1/completions", COMPLETION).status()).isEqualTo(200);
        }
    }

    @Test
    void slowReadersDoNotDelayOthers() throws IOException {
        try (RunningServer server = new RunningServer()) {
            List<RawClient> slow = new ArrayList<>();
            for (int i = 0; i < RunningServer.QUEUE; i++) {
                RawClient client = server.connect();
                client.send(RawClient.request("/v1/completions", LONG_STREAM).repeat(20));
                slow.add(client);
            }
            for (int i = 0; i < 20; i++) {
                assertThat(server.get("/health").status()).isEqualTo(200);
            }
            for (RawClient client : slow) {
                assertThat(client.read().body()).endsWith("data: [DONE]\n\n");
                client.close();
            }
        }
    }

    @Test
    void probesAreAnsweredWhileTheTokenizerIsBusyAndTheEngineHangs() throws Exception {
        try (RunningServer server = new RunningServer()) {
            server.executor.hold();
            server.tokenizer.gate.set(new CountDownLatch(1));
            List<RawClient> waiting = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                RawClient client = server.connect();
                client.post("/v1/completions", COMPLETION);
                waiting.add(client);
            }
            server.tokenizer.entered.await();
            assertThat(server.get("/health").status()).isEqualTo(200);
            assertThat(server.get("/metrics").status()).isEqualTo(200);
            assertThat(server.get("/v1/models").status()).isEqualTo(200);
            server.tokenizer.gate.get().countDown();
            server.executor.release();
            for (RawClient client : waiting) {
                assertThat(client.read().status()).isEqualTo(200);
            }
        }
    }

    @Test
    void requestsThatTheTokenizerCannotKeepUpWithAreRefused() throws Exception {
        try (RunningServer server = new RunningServer()) {
            server.tokenizer.gate.set(new CountDownLatch(1));
            List<RawClient> clients = new ArrayList<>();
            // threads and queue are bounded: some of these requests must be refused
            for (int i = 0; i < RunningServer.QUEUE + 10; i++) {
                RawClient client = server.connect();
                client.post("/v1/completions", COMPLETION);
                clients.add(client);
            }
            RawClient refused = firstAnswered(clients);
            RawClient.Answer answer = refused.read();
            assertThat(answer.status()).isEqualTo(429);
            assertThat(answer.error()).contains("wait to be tokenized");
            assertThat(answer.headers()).containsKey("retry-after");
            server.tokenizer.gate.get().countDown();
            for (RawClient client : clients) {
                if (client != refused) {
                    assertThat(client.read().status()).isIn(200, 429);
                }
            }
        }
    }

    // --- failures

    @Test
    void aStreamEndsWithAnErrorWhenTheEngineDies() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            server.executor.hold();
            client.post("/v1/completions", STREAM);
            assertThat(client.line()).contains("200 OK");
            Thread closing = Thread.ofVirtual().start(server.engine::close);
            server.executor.release();
            String line = client.line();
            while (!line.startsWith("data: [DONE]")) {
                line = client.line();
            }
            assertThat(closing).isNotNull();
        }
    }

    @Test
    void connectionErrorsHaveTheFormatOfApiErrors() throws IOException {
        try (RunningServer server = new RunningServer();
                RawClient client = server.connect()) {
            client.send("GET /\u001b[31m\u0007evil HTTP/1.1\r\nHost: localhost\r\n\r\n");
            RawClient.Answer answer = client.read();
            JsonNode error = answer.json().path("error");
            assertThat(error.path("code").asInt()).isEqualTo(answer.status()).isIn(400, 404);
            assertThat(error.path("message").asString())
                    .doesNotContain("\u001b")
                    .doesNotContain("\u0007");
        } catch (SocketException e) {
            throw new AssertionError("the connection was reset", e);
        }
    }
}
