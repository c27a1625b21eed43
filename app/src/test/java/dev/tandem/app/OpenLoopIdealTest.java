package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** Results of open loops beside the ideal, simulated and over HTTP. */
@Timeout(value = 2, unit = TimeUnit.MINUTES)
class OpenLoopIdealTest {
    private static final String IDEAL = "ideal_output_tokens_per_second";

    /** The GPU alone is saturated at 9.3 requests/s of osc. */
    private static CommandRun simulate(String... options) {
        List<String> args = new ArrayList<>(List.of(
                "bench",
                "simulate",
                "--profile",
                "../docs/results/profiles/h200-2req.txt",
                "--preset",
                "h200-2req",
                "--warm-up",
                "10",
                "--duration",
                "30",
                "--json"));
        args.addAll(List.of(options));
        return CommandRun.of(args.toArray(String[]::new));
    }

    private static double number(JsonNode result, String key) {
        assertThat(result.has(key)).as(key).isTrue();
        return result.path(key).doubleValue();
    }

    @Test
    void everyRateOfEveryStrategyIsHeldAgainstTheIdeal() {
        List<JsonNode> results = simulate(
                        "--workload", "osc", "--strategy", "gpu-only,async-overlap", "--request-rate", "4,14")
                .jsonLines();
        double ideal = number(results.getFirst(), IDEAL);
        double idealGain = number(results.getFirst(), "ideal_ratio") - 1;

        assertThat(results).hasSize(4);
        assertThat(results).allSatisfy(result -> {
            assertThat(number(result, IDEAL)).isEqualTo(ideal);
            assertThat(number(result, "share_of_ideal"))
                    .isCloseTo(number(result, "output_throughput") / ideal, within(1e-3));
            assertThat(number(result, "share_of_ideal_gain"))
                    .isCloseTo((number(result, "ratio_to_gpu_only") - 1) / idealGain, within(2e-3));
        });
        assertThat(number(results.get(3), "share_of_ideal_gain"))
                .as("above saturation")
                .isGreaterThan(0.02);
        JsonNode closed = simulate("--workload", "osc", "--steady", "5").json();
        assertThat(number(closed, IDEAL)).isEqualTo(ideal);
    }

    @Test
    void aTraceHasTheIdealOfItsOwnLengths() {
        double poisson = number(
                simulate("--workload", "azure-conv", "--kv-cache-memory", "4GiB", "--request-rate", "0.2")
                        .json(),
                IDEAL);
        double trace = number(
                simulate(
                                "--workload",
                                "azure-conv",
                                "--kv-cache-memory",
                                "4GiB",
                                "--arrivals",
                                "trace:azure-conv",
                                "--request-rate",
                                "0.2")
                        .json(),
                IDEAL);
        double code = number(
                simulate(
                                "--workload",
                                "azure-code",
                                "--kv-cache-memory",
                                "4GiB",
                                "--arrivals",
                                "trace:azure-conv",
                                "--request-rate",
                                "0.2")
                        .json(),
                IDEAL);

        assertThat(trace).isEqualTo(poisson);
        assertThat(code).isLessThan(0.8 * trace);
    }

    @Test
    void promptsThatAreCachedInPartOrGrowHaveNoIdeal() {
        String[] shared = {"--workload", "prefix:64/16/32", "--request-rate", "1"};
        CommandRun whole = simulate(shared);
        List<String> cached = new ArrayList<>(List.of(shared));
        cached.add("--enable-prefix-caching");
        CommandRun inPart = simulate(cached.toArray(String[]::new));
        CommandRun turns = simulate("--workload", "prefix:64/16/32/3", "--request-rate", "1");

        assertThat(whole.json().has("share_of_ideal")).isTrue();
        assertThat(inPart.json().has("share_of_ideal")).isFalse();
        assertThat(inPart.errors()).contains("no share_of_ideal", "prefix:64/16/32 are cached in part");
        assertThat(turns.json().has("share_of_ideal")).isFalse();
        assertThat(turns.errors()).contains("prefix:64/16/32/3 grow with each turn");
    }

    /** The client knows nothing of the server's machine. */
    @Test
    void aServersIdealIsAnOption(@TempDir Path folder) throws Exception {
        Path report = folder.resolve("report.html");
        JsonNode result;
        try (LocalServer server = new LocalServer(
                DummyModel.write(folder.resolve("model")).toString(), "--load-format", "dummy", "--device", "cpu")) {
            result = CommandRun.of(
                            "bench",
                            "serve",
                            "--base-url",
                            server.address,
                            "--endpoint",
                            "/v1/chat/completions",
                            "--workload",
                            "synthetic:20/4",
                            "--num-prompts",
                            "4",
                            "--" + IDEAL.replace('_', '-'),
                            "5000",
                            "--report",
                            report.toString(),
                            "--json")
                    .json();
        }

        assertThat(number(result, "completed")).isEqualTo(4);
        assertThat(number(result, IDEAL)).isEqualTo(5000);
        assertThat(number(result, "share_of_ideal"))
                .isCloseTo(number(result, "output_throughput") / 5000, within(1e-3));
        assertThat(Files.readString(report)).contains(">share of ideal</th>", "ideal_output_tokens_per_second");
    }
}
