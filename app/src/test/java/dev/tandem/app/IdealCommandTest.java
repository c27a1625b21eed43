package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

class IdealCommandTest {
    private record Run(int status, String out, String errors) {
        JsonNode json() {
            return new ObjectMapper().readTree(out);
        }
    }

    private static Run run(String... args) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        try {
            int status = Main.execute(args);
            return new Run(status, said.toString(StandardCharsets.UTF_8), errors.toString(StandardCharsets.UTF_8));
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
    }

    /** 54 blocks of 16 tokens and 524,288 bytes, and a measured profile. */
    @Test
    void aPresetHasItsHardwareModelAndMemory() {
        JsonNode ideal = run("ideal", "--preset", "h200-8sm-2req", "--workload", "osc", "--json")
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

        assertThat(run(bound).json().path("ideal_output_tokens_per_second").doubleValue())
                .isLessThan(
                        run(free).json().path("ideal_output_tokens_per_second").doubleValue());
    }

    @Test
    void peopleReadOneLinePerWhatIf() {
        Run run = run("ideal", "--preset", "h200-26k", "--workload", "synthetic:1000/400");

        assertThat(run.out()).contains("ideal_ratio").contains("what if: twice the host KV");
    }

    /** gpu-only is held against the machine's ideal too, which has the host tier that the run leaves unused. */
    @Test
    void strategiesOfAComparisonHaveOneIdeal() {
        String[] lines = run(
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
                .out()
                .strip()
                .split("\n");
        JsonNode alone = new ObjectMapper().readTree(lines[0]);
        JsonNode both = new ObjectMapper().readTree(lines[1]);

        assertThat(alone.path("ideal_output_tokens_per_second")).isEqualTo(both.path("ideal_output_tokens_per_second"));
        assertThat(alone.path("ideal_ratio").doubleValue()).isGreaterThan(1.5);
        assertThat(alone.path("share_of_ideal_gain").doubleValue()).isZero();
        assertThat(alone.path("gpu_kv_bytes")).isEqualTo(both.path("gpu_kv_bytes"));
    }

    @Test
    void errorsNameTheOptionAndTheRemedy(@TempDir Path folder) throws IOException {
        assertThat(run("ideal").errors()).contains("ideal needs a machine: --preset, or --hardware");
        assertThat(run("ideal", "--hardware", "h200").errors()).contains("ideal needs a model: --model");
        Files.writeString(folder.resolve("other.json"), "{}");
        assertThat(run("ideal", "--preset", "h200", "--hardware", folder + "/other.json")
                        .errors())
                .contains("other.json has no object efficiency");
        assertThat(run("ideal", "--preset", "h200", "--model", folder.toString())
                        .errors())
                .contains("has no config.json");
        Run wrong = run("ideal", "--preset", "h200", "--model", "Llama-2-7B");
        assertThat(wrong.status()).isEqualTo(ExitCode.CANNOT_START);
        assertThat(wrong.errors()).contains("hardware h200 is of Llama-3.1-8B");
    }
}
