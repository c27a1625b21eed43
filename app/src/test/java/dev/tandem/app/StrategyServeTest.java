package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The default model under the strategies, through the whole server, with a GPU pool too small for its requests. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class StrategyServeTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PROFILE =
            Path.of("src/test/resources/profile.txt").toAbsolutePath().toString();
    private static final String TEN_TOKENS =
            "{\"prompt\": \"Here are three facts\", \"temperature\": 0, \"max_tokens\": 10, \"ignore_eos\": true";

    private static LocalServer gpuOnly;
    private static List<String> expected;

    private static LocalServer server(String strategy, String... more) {
        List<String> options = new ArrayList<>(List.of(
                "--strategy",
                strategy,
                "--profile",
                PROFILE,
                "--max-model-len",
                "96",
                "--num-gpu-blocks-override",
                "8",
                "--host-kv",
                "64MiB"));
        options.addAll(List.of(more));
        return new LocalServer(options.toArray(String[]::new));
    }

    @BeforeAll
    static void answersOfTheGpuAlone() throws Exception {
        gpuOnly = server("gpu-only");
        expected = answers(gpuOnly);
        JsonNode steps = JSON.readTree(gpuOnly.get("/debug/steps").body()).get("steps");
        assertThat(steps.get(0).get("chosen").asString()).isEqualTo("gpu-only");
        assertThat(steps.get(0).get("host_wait_ms").asDouble()).isZero();
    }

    @AfterAll
    static void end() {
        if (gpuOnly != null) { // the server may not have started
            gpuOnly.close();
        }
    }

    /** Six requests of up to three blocks each at once, for which the eight blocks of the GPU are too few. */
    private static List<String> answers(LocalServer server) {
        List<CompletableFuture<String>> answers = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            String body = "{\"prompt\": \"Here are " + (i + 2) + " facts about the number " + i
                    + ":\", \"temperature\": 0, \"max_tokens\": 24, \"ignore_eos\": true}";
            answers.add(CompletableFuture.supplyAsync(() -> {
                try {
                    HttpResponse<String> response = server.post("/v1/completions", body);
                    assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
                    return JSON.readTree(response.body()).at("/choices/0/text").asString();
                } catch (IOException | InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }));
        }
        return answers.stream().map(CompletableFuture::join).toList();
    }

    @Test
    void theGpuAloneDecodesNoTokenOnTheHost() throws Exception {
        JsonNode asked = JSON.readTree(gpuOnly.post("/v1/completions", TEN_TOKENS + ", \"host_usage\": true}")
                .body());
        assertThat(asked.at("/usage/completion_tokens_details/host_tokens").asInt(-1))
                .isZero();
    }

    /** What usage says of a prompt of 40 tokens, so of two whole blocks that others may hit. */
    private static JsonNode longPrompt(LocalServer server, boolean hostUsage) throws Exception {
        String ids = IntStream.range(1000, 1040).mapToObj(Integer::toString).collect(Collectors.joining(", "));
        String body = "{\"prompt\": [" + ids + "], \"max_tokens\": 2, \"host_usage\": " + hostUsage + "}";
        return JSON.readTree(server.post("/v1/completions", body).body()).at("/usage/prompt_tokens_details");
    }

    @Test
    void cachedTokensThatWereFoundOnTheHostAreInTheUsageWhenAsked() throws Exception {
        try (LocalServer server = server("simple-offload", "--no-guard", "--tpot-target", "0")) {
            longPrompt(server, false);
            JsonNode asked = longPrompt(server, true);
            assertThat(asked.get("cached_tokens").asInt()).isEqualTo(32);
            assertThat(asked.get("host_cached_tokens").asInt()).isEqualTo(32);
            assertThat(longPrompt(server, false).has("host_cached_tokens")).isFalse();
            JsonNode kv = JSON.readTree(server.get("/tandem/engine").body()).get("kv");
            assertThat(server.metric("tandem:kv_blocks"))
                    .as("blocks of both tiers in all states")
                    .isEqualTo(
                            kv.at("/gpu/blocks").asInt() + kv.at("/host/blocks").asInt());
        }
        longPrompt(gpuOnly, false);
        JsonNode onGpu = longPrompt(gpuOnly, true);
        assertThat(onGpu.get("cached_tokens").asInt()).isEqualTo(32);
        assertThat(onGpu.get("host_cached_tokens").asInt(-1)).isZero();
    }

    @Test
    void kvThatTheGpuAloneSwapsIsCountedBothWays() throws Exception {
        assertThat(gpuOnly.metric("vllm:num_preemptions_total")).isPositive();
        assertThat(gpuOnly.metric("vllm:kv_offload_store_bytes_total")).isPositive();
        assertThat(gpuOnly.metric("vllm:kv_offload_load_bytes_total")).isPositive();
    }

    @Test
    void hostTokensAreInTheUsageWhenAskedAndAreVerifiedOnTheGpu() throws Exception {
        try (LocalServer server = server("simple-offload", "--no-guard", "--shadow-verification-rate", "1")) {
            JsonNode plain = JSON.readTree(
                    server.post("/v1/completions", TEN_TOKENS + "}").body());
            assertThat(plain.at("/usage/completion_tokens_details").isMissingNode())
                    .isTrue();
            assertThat(plain.at("/choices/0/logprobs").isNull()).isTrue();
            JsonNode asked = JSON.readTree(server.post("/v1/completions", TEN_TOKENS + ", \"host_usage\": true}")
                    .body());
            // the first token comes from the prompt, which the GPU computes
            assertThat(asked.at("/usage/completion_tokens_details/host_tokens").asInt())
                    .isEqualTo(9);
            assertThat(hostTokensOfChunks(server)).startsWith(0).endsWith(9).isSorted();
            assertThat(hostTokensOfChunks(server).stream().distinct().count()).isGreaterThan(5);
            while (server.metric("tandem:shadow_verification_logprob_difference_count") == 0) {
                Thread.onSpinWait();
            }
            assertThat(server.metric("tandem:shadow_verification_logprob_difference_sum"))
                    .isLessThan(1e-3);
            assertThat(server.metric("vllm:e2e_request_latency_seconds_count"))
                    .as("requests without those of verification")
                    .isEqualTo(4);
        }
    }

    /** The host tokens so far, of each chunk with text. */
    private static List<Integer> hostTokensOfChunks(LocalServer server) throws Exception {
        String stream = server.post(
                        "/v1/completions",
                        TEN_TOKENS + ", \"host_usage\": true, \"stream\": true,"
                                + " \"stream_options\": {\"continuous_usage_stats\": true}}")
                .body();
        return stream.lines()
                .filter(line -> line.startsWith("data: {"))
                .map(line -> JSON.readTree(line.substring("data: ".length())))
                .map(chunk ->
                        chunk.at("/usage/completion_tokens_details/host_tokens").asInt(-1))
                .toList();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "simple-offload",
                "symmetric",
                "fastdecode-plus",
                "asymmetric",
                "async-overlap",
                "neo",
                "apex",
                "adaptive"
            })
    void everyStrategyGivesTheSameAnswersAndSaysWhy(String strategy) throws Exception {
        // reasons name the rules that decide; those of adaptive are APEX's, with other values of the deviations
        String rules = strategy.equals("adaptive") ? "apex" : strategy;
        // without a target, however slow the machine of the test is
        try (LocalServer server = server(strategy, "--no-guard", "--tpot-target", "0")) {
            assertThat(answers(server)).isEqualTo(expected);
            JsonNode steps = JSON.readTree(server.get("/debug/steps").body()).get("steps");
            assertThat(steps.size()).isGreaterThan(20);
            assertThat(steps.valueStream().map(step -> step.get("reason").asString()))
                    .allMatch(reason -> reason.startsWith(rules + ": "));
            assertThat(steps.valueStream()
                            .allMatch(step -> step.get("predicted_ms").asDouble() > 0))
                    .isTrue();
            assertThat(steps.valueStream()
                            .allMatch(step -> step.get("finishing").asInt()
                                    <= step.get("in_flight").asInt()))
                    .isTrue();
            if (strategy.equals("async-overlap")) {
                assertThat(steps.valueStream()
                                .anyMatch(step -> step.get("in_flight").asInt() > 0))
                        .isTrue();
            }
            assertThat(server.get("/metrics").body())
                    .contains("tandem:prediction_error{")
                    .contains("tandem:host_decode_tokens");
            JsonNode engine = JSON.readTree(server.get("/tandem/engine").body());
            assertThat(engine.at("/strategy/name").asString()).isEqualTo(strategy);
            assertThat(engine.at("/strategy/guarded").asBoolean()).isFalse();
            JsonNode hostSteps = engine.get("steps");
            assertThat(hostSteps.valueStream().filter(step -> step.get("host").asInt() > 0))
                    .as("the CPU's time is measured in steps that decode on the host")
                    .isNotEmpty()
                    .anyMatch(step -> step.get("cpu_attention_ms").asDouble() > 0);
        }
    }

    @Test
    void theGuardKeepsToTheGpuWhereBothTiersShareTheirCores() throws Exception {
        try (LocalServer server = server("asymmetric")) {
            assertThat(answers(server)).isEqualTo(expected);
            JsonNode steps = JSON.readTree(server.get("/debug/steps").body()).get("steps");
            assertThat(steps.valueStream().map(step -> step.get("chosen").asString()))
                    .containsOnly("gpu-only");
            assertThat(server.get("/metrics").body())
                    .containsPattern("tandem:offloading\\{[^}]*} 0.0")
                    .containsPattern("tandem:guard_losses_total\\{[^}]*} 0.0")
                    .doesNotContain("tandem:measured_gain{")
                    .doesNotContain("tandem:ideal_gain{");
            JsonNode strategy =
                    JSON.readTree(server.get("/tandem/engine").body()).get("strategy");
            assertThat(strategy.get("guarded").asBoolean()).isTrue();
            assertThat(strategy.get("offloading").asBoolean()).isFalse();
            assertThat(strategy.get("reason").asString()).isNotEmpty();
            assertThat(strategy.at("/phases/0/phase").asString()).isEqualTo("measure");
            assertThatLatencyTargetsAreChecked(server);
        }
    }

    private static void assertThatLatencyTargetsAreChecked(LocalServer server) throws Exception {
        HttpResponse<String> bad = server.post("/v1/completions", "{\"prompt\": \"a\", \"ttft_target\": -1}");
        assertThat(bad.statusCode()).isEqualTo(400);
        assertThat(bad.body()).contains("ttft_target is -1.0");
        String wanted = "{\"prompt\": \"a\", \"max_tokens\": 3, \"ttft_target\": 500, \"tpot_target\": 50.5}";
        assertThat(server.post("/v1/completions", wanted).statusCode()).isEqualTo(200);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "--strategy neoo | --strategy neoo is not known; known are gpu-only, swiftllm, simple-offload",
                "--strategy symmetric --host-kv 1MiB | --strategy symmetric keeps all KV on the host",
                "--strategy neo --host-kv 1kB | --strategy neo needs host KV and the host pool has no block; raise "
                        + "--host-kv",
                "--num-gpu-blocks-override 0 | --num-gpu-blocks-override 0 is too small; it must be at least 1",
                "--threads 0 | --threads 0 is too small; it must be at least 1",
                "--attention-threads 0 | --attention-threads 0 is too small; it must be at least 1",
                "--ttft-target NaN | --ttft-target NaN must be a number of milliseconds",
                "--shadow-verification-rate 1.5 --strategy neo | --shadow-verification-rate 1.5 is a fraction of "
                        + "requests; it must lie in [0, 1]",
                "--rotate-after -2 --strategy neo | --rotate-after -2",
                "--deviation min-cpu-ratio=-1 --strategy apex | min-cpu-ratio=-1",
                "--strategy neo --profile no-such-file | no-such-file cannot be read",
            })
    void badInputIsRefusedBeforeAnythingRuns(String flags, String message) {
        assertThat(generate(flags.split(" "))).contains(message);
    }

    @ParameterizedTest
    @ValueSource(strings = {"linear 512 NaN", "linear 512 -1", "linear 512 0", "layers 7", "step-overhead -1"})
    void absurdProfilesAreRefused(String line, @TempDir Path folder) throws IOException {
        String key = line.substring(0, line.lastIndexOf(' '));
        String text = Files.readString(Path.of(PROFILE))
                        .replaceAll("(?m)^" + key.replaceAll(" .*", "") + " [^ \n]*( .*)?$", "")
                + line + "\n";
        Path file = Files.writeString(folder.resolve("profile.txt"), text);
        assertThat(generate("--strategy", "neo", "--profile", file.toString())).contains("tandem profile");
    }

    /** What the command prints when it cannot begin. */
    private static String generate(String... flags) {
        List<String> arguments = new ArrayList<>(List.of("generate", "--prompt", "hi", "--max-tokens", "1"));
        arguments.addAll(List.of(flags));
        PrintStream before = System.err;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        System.setErr(new PrintStream(caught, true, StandardCharsets.UTF_8));
        try {
            assertThat(Main.execute(arguments.toArray(String[]::new))).isNotZero();
        } finally {
            System.setErr(before);
        }
        return caught.toString(StandardCharsets.UTF_8);
    }
}
