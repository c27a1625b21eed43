package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.TandemServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** How a server ends: by signals, by the engine's death, and before its model is loaded. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class ServerLifetimeTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** What the engine's death may take, 5 s, and as much for a machine that has other things to do. */
    private static final int DEATH_SECONDS = 10;

    @TempDir
    Path folder;

    /** A {@link FailingServer} and what it says. */
    private static final class Running implements AutoCloseable {
        final Process process;
        final String address;
        final BufferedReader errors;
        final HttpClient http = HttpClient.newHttpClient();

        Running(Path folder, FailingServer.Fault fault) throws IOException {
            process = new ProcessBuilder(
                            Path.of(System.getProperty("java.home"), "bin", "java")
                                    .toString(),
                            "--enable-native-access=ALL-UNNAMED",
                            "-cp",
                            System.getProperty("java.class.path"),
                            FailingServer.class.getName(),
                            folder.toString(),
                            fault.name())
                    .start();
            errors = process.errorReader(StandardCharsets.UTF_8);
            BufferedReader out =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            address = out.readLine().substring("on ".length());
        }

        CompletableFuture<HttpResponse<String>> ask(boolean stream) {
            String body =
                    "{\"prompt\": \"w7 w8\", \"max_tokens\": 100, \"ignore_eos\": true, \"stream\": " + stream + "}";
            HttpRequest request = HttpRequest.newBuilder(URI.create(address + "/v1/completions"))
                    .header("Content-Type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(body))
                    .build();
            return http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        }

        /** All lines up to one that contains the text. */
        List<String> errorsUntil(String text) throws IOException {
            List<String> lines = new ArrayList<>();
            for (String line = errors.readLine(); line != null; line = errors.readLine()) {
                lines.add(line);
                if (line.contains(text)) {
                    return lines;
                }
            }
            throw new AssertionError("no '" + text + "' in " + lines);
        }

        /** Sends SIGTERM; unlike {@link Process#destroy}, what the process says is still read. */
        void terminate() {
            process.toHandle().destroy();
        }

        @Override
        public void close() {
            process.destroyForcibly(); // first: the client waits for its answers
            http.close();
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = FailingServer.Fault.class,
            names = {"DIES", "DIES_AND_HANGS"})
    void theEnginesDeathIsToldAndEndsTheProcess(FailingServer.Fault fault) throws Exception {
        try (Running server = new Running(folder, fault)) {
            HttpResponse<String> answer =
                    server.ask(fault == FailingServer.Fault.DIES).get();
            assertThat(answer.body()).contains("has failed");
            assertThat(server.process.waitFor(DEATH_SECONDS, TimeUnit.SECONDS)).isTrue();
            assertThat(server.process.exitValue()).isEqualTo(ExitCode.FAILED);
            List<String> said = server.errorsUntil("tandem: the engine has stopped");
            assertThat(said.getLast()).contains("the device has failed").contains("Start it again");
        }
    }

    @Test
    void aSecondSignalEndsAtOnce() throws Exception {
        try (Running server = new Running(folder, FailingServer.Fault.STEP_HANGS)) {
            CompletableFuture<HttpResponse<String>> never = server.ask(false);
            until(server, "vllm:num_requests_running");
            server.terminate();
            server.errorsUntil("ends at once");
            assertThat(server.process.isAlive()).isTrue();
            server.terminate();
            assertThat(server.process.waitFor(DEATH_SECONDS, TimeUnit.SECONDS)).isTrue();
            assertThat(server.process.exitValue()).as("128 and SIGTERM").isEqualTo(143);
            assertThat(never).failsWithin(DEATH_SECONDS, TimeUnit.SECONDS);
        }
    }

    /** Waits until the series is positive; the timeout of the test is the limit. */
    private static void until(Running server, String series) throws IOException, InterruptedException {
        boolean positive = false;
        while (!positive) {
            String text = server.http
                    .send(
                            HttpRequest.newBuilder(URI.create(server.address + "/metrics"))
                                    .build(),
                            HttpResponse.BodyHandlers.ofString())
                    .body();
            positive = text.lines()
                    .filter(line -> line.startsWith(series + "{"))
                    .anyMatch(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)) > 0);
        }
    }

    @ParameterizedTest
    @EnumSource(LoadingPath.class)
    void untilTheModelIsLoadedEveryRequestIsAnsweredWith503(LoadingPath path) throws Exception {
        try (TandemServer server = FailingServer.listen();
                HttpClient http = HttpClient.newHttpClient()) {
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + path.path))
                    .header("Content-Type", "application/json")
                    .method(path.method, HttpRequest.BodyPublishers.ofString(path.method.equals("POST") ? "{}" : ""))
                    .build();
            HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            assertThat(answer.statusCode()).isEqualTo(503);
            assertThat(answer.body()).contains("the model is loading");
            assertThat(answer.headers().firstValue("Retry-After")).isPresent();
        }
    }

    @Test
    void whileTheModelIsLoadedAnswersSayHowFar() throws Exception {
        try (TandemServer server = FailingServer.listen();
                HttpClient http = HttpClient.newHttpClient()) {
            String address = "http://127.0.0.1:" + server.port();
            HttpRequest request =
                    HttpRequest.newBuilder(URI.create(address + "/health")).build();
            JsonNode start = error(http.send(request, HttpResponse.BodyHandlers.ofString()));
            assertThat(start.path("message").asString()).isEqualTo("the model is loading; try again in a few seconds");
            assertThat(start.path("loading")).isEqualTo(JSON.createObjectNode().put("work", ""));
            server.loading("loading weights", 427, 1000);
            JsonNode later = error(http.send(request, HttpResponse.BodyHandlers.ofString()));
            assertThat(later.path("message").asString())
                    .isEqualTo("the model is loading (loading weights, 42 %); try again in a few seconds");
            assertThat(later.path("loading"))
                    .isEqualTo(JSON.createObjectNode()
                            .put("work", "loading weights")
                            .put("progress", 0.427));
            server.loading("downloading the model", 5, 0);
            assertThat(CommandRun.of("ps", "--base-url", address).errors())
                    .contains("the model is loading (downloading the model); try again");
        }
    }

    private static JsonNode error(HttpResponse<String> answer) {
        assertThat(answer.statusCode()).isEqualTo(503);
        return JSON.readTree(answer.body()).path("error");
    }

    enum LoadingPath {
        HEALTH("GET", "/health"),
        METRICS("GET", "/metrics"),
        CHAT("POST", "/v1/chat/completions");

        final String method;
        final String path;

        LoadingPath(String method, String path) {
            this.method = method;
            this.path = path;
        }
    }
}
