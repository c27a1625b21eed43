package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

class IdealCommandTest {
    /** 54 blocks of 16 tokens and 524,288 bytes, and a measured profile. */
    @Test
    void aPresetHasItsHardwareModelAndMemory() {
        JsonNode ideal = CommandRun.of("ideal", "--preset", "h200-8sm-2req", "--workload", "osc", "--json")
                .json();

        assertThat(ideal.path("provenance").stringValue()).isEqualTo("measured (h200-8sm-2req.txt)");
        assertThat(ideal.path("gpu_kv_bytes").longValue()).isEqualTo(54L * 16 * 524_288);
        assertThat(ideal.path("ideal_ratio").doubleValue()).isBetween(2.0, 5.0);
        assertThat(ideal.path("limits").toString()).contains("GPU time");
        assertThat(ideal.path("what_if").size()).isEqualTo(6);
    }

    @Test
    void aTimePerTokenLowersTheIdeal() {
        String[] free = {"ideal", "--hardware", "a10g-g5.16xlarge", "--model", "Llama-3.1-8B", "--json"};
        String[] bound = {
            "ideal", "--hardware", "a10g-g5.16xlarge", "--model", "Llama-3.1-8B", "--max-tpot", "60", "--json"
        };

        assertThat(CommandRun.of(bound)
                        .json()
                        .path("ideal_output_tokens_per_second")
                        .doubleValue())
                .isLessThan(CommandRun.of(free)
                        .json()
                        .path("ideal_output_tokens_per_second")
                        .doubleValue());
    }

    @Test
    void peopleReadOneLinePerWhatIf() {
        CommandRun run = CommandRun.of("ideal", "--preset", "h200-26k", "--workload", "synthetic:1000/400");

        assertThat(run.out()).contains("ideal_ratio").contains("what if: twice the host KV");
    }

    /** gpu-only is held against the machine's ideal too, which has the host tier that the run leaves unused. */
    @Test
    void strategiesOfAComparisonHaveOneIdeal() {
        List<JsonNode> results = CommandRun.of(
                        "bench",
                        "simulate",
                        "--profile",
                        "../docs/results/profiles/h200-2req.txt",
                        "--preset",
                        "h200-2req",
                        "--workload",
                        "osc",
                        "--strategy",
                        "gpu-only,async-overlap",
                        "--warm-up",
                        "2",
                        "--steady",
                        "2",
                        "--json")
                .jsonLines();
        JsonNode alone = results.getFirst();
        JsonNode both = results.getLast();

        assertThat(alone.path("ideal_output_tokens_per_second")).isEqualTo(both.path("ideal_output_tokens_per_second"));
        assertThat(alone.path("ideal_ratio").doubleValue()).isGreaterThan(1.5);
        assertThat(alone.path("share_of_ideal_gain").doubleValue()).isZero();
        assertThat(alone.path("gpu_kv_bytes")).isEqualTo(both.path("gpu_kv_bytes"));
    }

    /** 22 of 26 layers hold 512 of some 8,200 tokens. */
    @Test
    void layersWithAWindowHoldAndReadNoMoreThanThat(@TempDir Path folder) throws IOException {
        GemmaConfig.write(folder, 26);
        JsonNode ideal = CommandRun.of(
                        "ideal",
                        "--hardware",
                        "l4-16vcpu",
                        "--model",
                        folder.toString(),
                        "--workload",
                        "synthetic:8000/400",
                        "--gpu-kv",
                        "8GiB",
                        "--json")
                .json();

        double perRequest = 1024 * (4 * 8200 + 22 * 512);
        assertThat(ideal.path("gpu_only_sequences").doubleValue())
                .isCloseTo((8L << 30) / perRequest, within(0.05 * (8L << 30) / perRequest));
    }

    @Test
    void errorsNameTheOptionAndTheRemedy(@TempDir Path folder) throws IOException {
        assertThat(CommandRun.of("ideal").errors()).contains("ideal needs a machine: --preset, or --hardware");
        assertThat(CommandRun.of("ideal", "--hardware", "h200").errors()).contains("ideal needs a model: --model");
        Files.writeString(folder.resolve("other.json"), "{}");
        assertThat(CommandRun.of("ideal", "--preset", "h200", "--hardware", folder + "/other.json")
                        .errors())
                .contains("other.json has no object efficiency");
        assertThat(CommandRun.of("ideal", "--preset", "h200", "--model", folder.toString())
                        .errors())
                .contains("has no config.json");
        CommandRun wrong = CommandRun.of("ideal", "--preset", "h200", "--model", "Llama-2-7B");
        assertThat(wrong.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(wrong.errors()).contains("hardware h200 is of Llama-3.1-8B");
    }
}
