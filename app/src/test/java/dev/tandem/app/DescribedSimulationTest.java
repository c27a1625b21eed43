package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** {@code bench simulate} on machines that a hardware file or a preset describes. */
class DescribedSimulationTest {
    private static final double L4_KV_BYTES = 0.95 * 23.7e9 - 16.06e9 - 1e9;

    private static CommandRun simulate(String... options) {
        List<String> args =
                new ArrayList<>(List.of("bench", "simulate", "--warm-up", "20", "--steady", "20", "--json"));
        args.addAll(List.of(options));
        return CommandRun.of(args.toArray(String[]::new));
    }

    private static CommandRun l4(String... options) {
        List<String> args = new ArrayList<>(List.of("--hardware", "l4-16vcpu", "--model", "Llama-3.1-8B"));
        args.addAll(List.of(options));
        return simulate(args.toArray(String[]::new));
    }

    private static JsonNode ideal(String... options) {
        List<String> args =
                new ArrayList<>(List.of("ideal", "--hardware", "l4-16vcpu", "--model", "Llama-3.1-8B", "--json"));
        args.addAll(List.of(options));
        return CommandRun.of(args.toArray(String[]::new)).json();
    }

    @Test
    void aDescribedMachineHasItsMemoryItsTimesAndItsIdeal() {
        List<JsonNode> results = l4("--strategy", "gpu-only,async-overlap").jsonLines();
        JsonNode alone = results.getFirst();
        JsonNode both = results.getLast();

        assertThat(both.path("machine").stringValue()).startsWith("simulated: l4-16vcpu; roofline(300 GB/s");
        assertThat(both.path("hardware").stringValue()).isEqualTo("l4-16vcpu");
        assertThat(both.path("model").stringValue()).isEqualTo("Llama-3.1-8B");
        assertThat(both.path("gpu_kv_bytes").doubleValue()).isCloseTo(L4_KV_BYTES, within(5e6));
        assertThat(alone.path("gpu_kv_bytes")).isEqualTo(both.path("gpu_kv_bytes"));
        assertThat(both.path("requests").intValue())
                .isGreaterThan(alone.path("requests").intValue());
        assertThat(both.path("ideal_ratio").doubleValue())
                .isCloseTo(ideal().path("ideal_ratio").doubleValue(), within(0.03));
        assertThat(both.has("share_of_ideal_gain")).isTrue();
    }

    @Test
    void aTargetForTheTimePerTokenBoundsTheIdeal() {
        String[] workload = {"--workload", "synthetic:200/100"};
        double free = l4(workload).json().path("ideal_output_tokens_per_second").doubleValue();
        double bound = l4("--workload", "synthetic:200/100", "--tpot-target", "100")
                .json()
                .path("ideal_output_tokens_per_second")
                .doubleValue();

        assertThat(bound).isLessThan(0.9 * free);
        assertThat(bound
                        / ideal("--workload", "synthetic:200/100", "--max-tpot", "100")
                                .path("ideal_output_tokens_per_second")
                                .doubleValue())
                .isCloseTo(1, within(0.03));
    }

    @Test
    void aHostThatIsSlowerThanItsProfileShowsInTheResult() {
        JsonNode profiled = l4("--strategy", "fastdecode-plus").json();
        JsonNode slower = l4("--strategy", "fastdecode-plus", "--error", "host-attention=1.3")
                .json();

        assertThat(profiled.path("correction_cpu_attention").doubleValue()).isCloseTo(1, within(0.01));
        assertThat(slower.path("correction_cpu_attention").doubleValue()).isCloseTo(1.3, within(0.02));
        assertThat(slower.path("prediction_error").isNumber()).isTrue();
    }

    /** The weights of 16 GB alone take 56 ms to read. */
    @Test
    void aTargetThatNoScheduleReachesHasNoIdeal() {
        CommandRun run = l4("--tpot-target", "40");

        assertThat(run.status()).isZero();
        assertThat(run.json().has("share_of_ideal")).isFalse();
        assertThat(run.errors()).contains("no schedule reaches --tpot-target 40.0 on this machine. Raise the target");
    }

    @Test
    void optionsWinOverTheDescription() {
        JsonNode sized = l4(
                        "--kv-cache-memory", "1GiB", "--host-kv", "2GiB", "--max-num-seqs", "5", "--strategy", "neo")
                .json();
        JsonNode used = l4("--gpu-memory-utilization", "0.9").json();

        assertThat(sized.path("gpu_kv_bytes").longValue()).isEqualTo(1L << 30);
        assertThat(sized.path("requests").intValue()).isEqualTo(5);
        assertThat(used.path("gpu_kv_bytes").doubleValue()).isCloseTo(L4_KV_BYTES - 0.05 * 23.7e9, within(5e6));
    }

    @Test
    void someOfTheFirstRequestsMayBeWhole() {
        JsonNode result =
                l4("--workload", "synthetic:200/100", "--in-progress", "7").json();
        assertThat(result.path("in_progress").intValue()).isEqualTo(7);
        assertThat(result.path("requests").intValue()).isGreaterThan(7);

        assertThat(l4("--in-progress", "-1").errors()).contains("--in-progress -1 must be 0 or more");
        assertThat(l4("--in-progress", "7", "--requests", "9").errors())
                .contains("--in-progress 7 needs a steady window; leave it out, or use --steady without --requests");
    }

    @Test
    void aFileDescribesAMachineToo() {
        JsonNode result = simulate(
                        "--hardware",
                        "../bench/src/main/resources/dev/tandem/bench/hardware/h100-16vcpu.json",
                        "--model",
                        "Qwen3-32B")
                .json();

        assertThat(result.path("machine").stringValue()).contains("64 layers of 5120");
    }

    /** Without windows the ideal GPU holds a fourth of the requests that the simulated one does. */
    @Test
    void theIdealOfLayersWithAWindowIsNotBeaten(@TempDir Path folder) throws IOException {
        GemmaConfig.write(folder, 26);
        JsonNode result = simulate(
                        "--hardware",
                        "l4-16vcpu",
                        "--model",
                        folder.toString(),
                        "--workload",
                        "synthetic:8000/400",
                        "--kv-cache-memory",
                        "2GiB",
                        "--strategy",
                        "gpu-only",
                        "--tpot-target",
                        "0")
                .json();

        assertThat(result.path("share_of_ideal").doubleValue()).isBetween(0.7, 1.0);
        assertThat(result.path("requests").intValue())
                .as("as many as fit their windows")
                .isGreaterThan(40);
    }

    /** The profile of a preset's hardware comes with Tandem. */
    @Test
    void aPresetNeedsNoProfile() {
        JsonNode own = simulate("--preset", "h200-2req", "--workload", "osc").json();
        JsonNode given = simulate(
                        "--preset",
                        "h200-2req",
                        "--workload",
                        "osc",
                        "--profile",
                        "../docs/results/profiles/h200-2req.txt")
                .json();

        assertThat(own.path("output_tokens_per_second")).isEqualTo(given.path("output_tokens_per_second"));
        assertThat(own.path("machine")).isEqualTo(given.path("machine"));
    }

    /** As in serve: without a host tier, two requests in a small pool compute prompts again that others preempted. */
    @Test
    void gpuOnlyKeepsPreemptedKvOnTheHost() {
        String[] run = {"--preset", "h200-2req", "--workload", "osc", "--strategy", "gpu-only"};
        JsonNode swaps = simulate(run).json();
        String[] without =
                Stream.concat(Stream.of(run), Stream.of("--host-kv", "1kB")).toArray(String[]::new);
        JsonNode computesAgain = simulate(without).json();

        assertThat(swaps.path("computed_prefill_tokens").intValue())
                .isLessThan(computesAgain.path("computed_prefill_tokens").intValue());
        assertThat(swaps.path("p99_tpot_ms").doubleValue())
                .isLessThan(computesAgain.path("p99_tpot_ms").doubleValue());
    }
}
