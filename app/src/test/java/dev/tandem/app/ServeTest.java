package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.Version;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The whole server with the default model: a real client, bad input, clients that leave, full queues, SIGTERM. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ServeTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static TestServer server;

    @BeforeAll
    static void start() throws IOException {
        server = new TestServer("--max-num-seqs", "2", "--max-queued-requests", "4", "--max-body-size", "200kB");
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @Test
    void thePrintedCurlLineAnswersParis() throws Exception {
        Process curl = new ProcessBuilder("bash", "-c", server.curl + " -s").start();
        String answer = new String(curl.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(curl.waitFor()).isZero();
        assertThat(JSON.readTree(answer).at("/choices/0/message/content").asString())
                .contains("Paris");
    }

    /** The client is installed into the build's own folder, once. */
    private static Path pythonPackages() throws IOException, InterruptedException {
        Path folder = Path.of("target/python-client").toAbsolutePath();
        if (!Files.exists(folder.resolve("openai"))) {
            run(
                    List.of("python3", "-m", "pip", "install", "-q", "--target", folder.toString(), "openai==3.54.0"),
                    Path.of("."));
        }
        return folder;
    }

    private static String run(List<String> command, Path packages) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("PYTHONPATH", packages.toString());
        Process process = builder.start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
        return output;
    }

    @Test
    void theOfficialOpenAiClientWorksUnmodified() throws Exception {
        try (TestServer guarded = new TestServer("--api-key", "secret")) {
            String output = run(
                    List.of("python3", "src/test/python/openai_client_test.py", guarded.address, "secret"),
                    pythonPackages());
            assertThat(output).contains("the OpenAI client is content");
            assertThat(guarded.get("/v1/models").statusCode()).isEqualTo(401);
            assertThat(guarded.get("/metrics").statusCode()).isEqualTo(200);
            assertThat(guarded.get("/health").statusCode()).isEqualTo(200);
        }
    }

    private static void assertError(HttpResponse<String> response, int status, String message) {
        assertThat(response.statusCode()).as(response.body()).isEqualTo(status);
        JsonNode error = JSON.readTree(response.body()).path("error");
        assertThat(error.path("message").asString()).contains(message);
        assertThat(error.path("code").asInt()).isEqualTo(status);
        assertThat(error.path("type").asString()).isNotEmpty();
    }

    @Test
    void badInputGetsAnErrorThatNamesIt() throws Exception {
        assertError(server.post("/v1/completions", "{"), 400, "not valid JSON");
        assertError(server.post("/v1/completions", "[1]"), 400, "must be a JSON object");
        assertError(
                server.post("/v1/completions", new byte[] {'{', '"', (byte) 0xFF, '"', ':', '1', '}'}),
                400,
                "not UTF-8");
        assertError(server.post("/v1/completions", "{}"), 400, "prompt is missing");
        assertError(server.post("/v1/completions", "{\"prompt\": \"\"}"), 400, "the prompt is empty");
        assertError(server.post("/v1/completions", "{\"prompt\": [1, 999999]}"), 400, "not in the vocabulary");
        assertError(
                server.post("/v1/completions", "{\"prompt\": \"x\", \"min_tokens\": 2, \"stop_token_ids\": [999999]}"),
                400,
                "stop_token_ids has token id 999999, which is not in the vocabulary");
        assertError(server.post("/v1/completions", "{\"prompt\": \"a\", \"temperature\": NaN}"), 400, "not valid JSON");
        assertError(
                server.post("/v1/completions", "{\"prompt\": \"a\", \"temperature\": -1}"), 400, "temperature is -1.0");
        assertError(server.post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": -5}"), 400, "max_tokens is -5");
        assertError(
                server.post("/v1/completions", "{\"prompt\": \"a\", \"max_tokens\": 1.5}"), 400, "max_tokens is 1.5");
        assertError(server.post("/v1/completions", "{\"prompt\": \"a\", \"n\": 0}"), 400, "n is 0");
        assertError(server.post("/v1/completions", "{\"prompt\": \"a\", \"stop\": [1]}"), 400, "stop is 1");
        assertError(
                server.post("/v1/completions", "{\"prompt\": \"a\", \"model\": \"other\"}"),
                404,
                "'other' is not served");
        assertError(server.post("/v1/chat/completions", "{\"messages\": [{\"role\": 1}]}"), 400, "a role");
        assertError(server.post("/v1/chat/completions", "{\"messages\": \"hi\"}"), 400, "messages");
        assertError(server.post("/detokenize", "{\"tokens\": [-1]}"), 400, "not in the vocabulary");
        String longPrompt = "{\"prompt\": \"" + "word ".repeat(9_000) + "\"}";
        assertError(server.post("/v1/completions", longPrompt), 400, "maximum context length is 8192 tokens");
        assertError(
                server.post("/v1/completions", "{\"prompt\": \"" + "x".repeat(300_000) + "\"}"),
                413,
                "limit of 204800 bytes");
        assertError(server.get("/v1/completions"), 405, "takes POST");
        assertError(server.get("/nowhere"), 404, "there is no /nowhere");
        assertThat(server.get("/health", "X-Long", "x".repeat(100_000)).statusCode())
                .isEqualTo(431);
    }

    @Test
    void tokensGoThereAndBack() throws Exception {
        String text = "Grüße, 東京 🙂 123\n";
        JsonNode tokens = JSON.readTree(server.post("/tokenize", JSON.writeValueAsString(Map.of("prompt", text)))
                .body());
        assertThat(tokens.path("count").asInt()).isEqualTo(tokens.path("tokens").size());
        String back = server.post("/detokenize", "{\"tokens\": " + tokens.path("tokens") + "}")
                .body();
        assertThat(JSON.readTree(back).path("prompt").asString()).isEqualTo(text);
        assertThat(server.get("/version").body()).contains("\"" + Version.text() + "\"");
    }

    @Test
    void tokenizesAndTemplatesLikeTransformers() throws Exception {
        for (int i = 0; i < 12; i++) {
            Path file = Path.of("../cpu/src/test/resources/default-model/prompt%02d/golden.json".formatted(i));
            JsonNode golden = JSON.readTree(Files.readAllBytes(file));
            String message = JSON.writeValueAsString(golden.path("message").asString());
            JsonNode plain = JSON.readTree(
                    server.post("/tokenize", "{\"prompt\": " + message + "}").body());
            assertThat(plain.path("tokens")).isEqualTo(golden.path("plain"));
            JsonNode chat = JSON.readTree(
                    server.post("/tokenize", "{\"messages\": [{\"role\": \"user\", \"content\": " + message + "}]}")
                            .body());
            assertThat(chat.path("tokens")).isEqualTo(golden.path("prompt"));
        }
    }

    /** Waits for a state that must come; the timeout of the test is the limit. */
    private static void until(Condition condition) throws Exception {
        while (!condition.holds()) {
            TimeUnit.MILLISECONDS.sleep(20);
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static Socket send(String body) throws IOException {
        URI address = URI.create(server.address);
        Socket socket = new Socket(address.getHost(), address.getPort());
        OutputStream out = socket.getOutputStream();
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        out.write(("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        + "application/json\r\nContent-Length: "
                        + bytes.length + "\r\n\r\n")
                .getBytes(StandardCharsets.UTF_8));
        out.write(bytes);
        out.flush();
        return socket;
    }

    @Test
    void aClientThatLeavesFreesItsPlaceRunningOrQueued() throws Exception {
        String endless = "{\"prompt\": \"Once\", \"max_tokens\": 8000, \"ignore_eos\": true, \"stream\": false}";
        double aborted = server.metric("vllm:request_success_total");
        List<Socket> clients = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            clients.add(send(endless.replace("\"stream\": false", "\"stream\": " + (i == 0))));
            int sent = i + 1;
            until(() ->
                    server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == sent);
        }
        // the second may wait for the step under way to end, never a third
        until(() -> server.metric("vllm:num_requests_running") == 2);
        assertThat(server.metric("vllm:num_requests_waiting")).isEqualTo(3);
        for (Socket client : clients) {
            client.close();
        }
        until(() -> server.metric("vllm:num_requests_running") == 0 && server.metric("vllm:num_requests_waiting") == 0);
        assertThat(server.metric("vllm:request_success_total") - aborted).isEqualTo(5);
        assertThat(server.metric("vllm:kv_cache_usage_perc")).isZero();
    }

    @Test
    void aFullQueueRefusesWithRetryAfter() throws Exception {
        String endless = "{\"prompt\": \"Once\", \"max_tokens\": 8000, \"ignore_eos\": true}";
        List<Socket> clients = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            clients.add(send(endless));
            int sent = i + 1;
            until(() ->
                    server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") == sent);
            // before the second runs, it takes a place of the queue that the sixth needs
            until(() -> server.metric("vllm:num_requests_running") == Math.min(2, sent));
        }
        HttpResponse<String> refused = server.post("/v1/completions", "{\"prompt\": \"a\"}");
        assertError(refused, 429, "the queue holds 4");
        assertThat(refused.headers().firstValue("Retry-After")).hasValue("1");
        for (Socket client : clients) {
            client.close();
        }
        until(() -> server.metric("vllm:num_requests_running") == 0);
    }

    @Test
    void sigtermFinishesWhatIsUnderWayAndExitsZero() throws Exception {
        try (TestServer draining = new TestServer()) {
            String body = "{\"prompt\": \"Once upon a time\", \"max_tokens\": 60, \"temperature\": 0, \"ignore_eos\": "
                    + "true, \"stream\": true}";
            URI address = URI.create(draining.address);
            try (Socket socket = new Socket(address.getHost(), address.getPort())) {
                socket.getOutputStream()
                        .write(("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                                        + "application/json\r\nConnection: close\r\nContent-Length: "
                                        + body.length() + "\r\n\r\n" + body)
                                .getBytes(StandardCharsets.UTF_8));
                InputStream in = socket.getInputStream();
                byte[] first = in.readNBytes(400);
                CompletableFuture<Integer> exit = CompletableFuture.supplyAsync(() -> {
                    try {
                        return draining.terminate();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                });
                String rest = new String(in.readAllBytes(), StandardCharsets.UTF_8);
                assertThat(new String(first, StandardCharsets.UTF_8)).contains("200 OK");
                assertThat(rest).contains("\"finish_reason\":\"length\"").contains("[DONE]");
                assertThat(exit.get()).isZero();
            }
        }
    }
}
