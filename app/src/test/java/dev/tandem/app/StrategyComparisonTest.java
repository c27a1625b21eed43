package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

class StrategyComparisonTest {
    @Test
    void aListBeginsWithGpuOnlyAndNamesKnownStrategies() {
        assertThat(StrategyComparison.strategies("gpu-only,neo,apex")).containsExactly("gpu-only", "neo", "apex");
        assertThatThrownBy(() -> StrategyComparison.strategies("neo,gpu-only"))
                .hasMessageContaining("--strategy neo,gpu-only begins with neo")
                .hasMessageContaining("begins with gpu-only");
        assertThatThrownBy(() -> StrategyComparison.strategies("gpu-only,neoo"))
                .hasMessageContaining("--strategy neoo is not known");
        assertThatThrownBy(() -> StrategyComparison.strategies("gpu-only,")).hasMessageContaining("is not known");
    }

    @Test
    void eachRunHasItsStrategyInEitherSpelling() {
        assertThat(StrategyComparison.withStrategy(List.of("bench", "--strategy", "a,b", "--json"), "neo"))
                .containsExactly("bench", "--strategy", "neo", "--json");
        assertThat(StrategyComparison.withStrategy(List.of("bench", "--strategy=a,b"), "neo"))
                .containsExactly("bench", "--strategy=neo");
    }

    @Test
    void unequalBytesAreNamed() {
        Map<String, Object> alone = Map.of(
                "strategy", "gpu-only", "output_tokens_per_second", 10, "ratio_to_gpu_only", 1, "gpu_kv_bytes", 8);
        Map<String, Object> both =
                Map.of("strategy", "neo", "output_tokens_per_second", 20, "ratio_to_gpu_only", 2, "gpu_kv_bytes", 6);
        assertThat(StrategyComparison.table(List.of(alone, both)).lines())
                .anyMatch(line -> line.contains("gpu-only") && line.endsWith("1.000"))
                .anyMatch(line -> line.contains("neo") && line.contains("2.000  with 0.750 of its GPU KV bytes"));
    }

    /** A search finds a rate per strategy, and a gain at unequal arrivals is not the ideal's. */
    @Test
    void onlyEqualArrivalsHaveAShareOfTheIdealGain() {
        Map<String, Object> alone = Map.of("output_throughput", 100.0, "request_rate", 2.0);
        Map<String, Object> same = result(2.0);
        Map<String, Object> higher = result(2.2);

        StrategyComparison.compare(same, alone);
        StrategyComparison.compare(higher, alone);

        assertThat(same).containsEntry("ratio_to_gpu_only", 1.1).containsEntry("share_of_ideal_gain", 0.5);
        assertThat(higher).containsEntry("ratio_to_gpu_only", 1.1).doesNotContainKey("share_of_ideal_gain");
    }

    private static Map<String, Object> result(double rate) {
        return new HashMap<>(Map.of("output_throughput", 110.0, "request_rate", rate, "ideal_ratio", 1.2));
    }

    /** The preset's pool and sequences differ per strategy; the GPU bytes do not. */
    @Test
    void simulatedStrategiesHaveEqualGpuBytesAndRatios(@TempDir Path folder) throws IOException {
        Path results = folder.resolve("results.jsonl");
        int status = Main.execute(
                "bench",
                "simulate",
                "--profile",
                "../docs/results/profiles/h200-2req.txt",
                "--preset",
                "h200-2req",
                "--workload",
                "osc",
                "--warm-up",
                "1",
                "--steady",
                "5",
                "--strategy",
                "gpu-only,async-overlap",
                "--result-file",
                results.toString());
        assertThat(status).isZero();
        List<JsonNode> lines = Files.readAllLines(results).stream()
                .map(line -> new ObjectMapper().readTree(line))
                .toList();
        assertThat(lines)
                .extracting(line -> line.get("strategy").asString())
                .containsExactly("gpu-only", "async-overlap");
        assertThat(lines)
                .allSatisfy(
                        line -> assertThat(line.get("gpu_kv_bytes").asLong()).isEqualTo(54L * 16 * 524_288));
        double alone = lines.get(0).get("output_tokens_per_second").asDouble();
        double both = lines.get(1).get("output_tokens_per_second").asDouble();
        assertThat(lines.get(0).get("ratio_to_gpu_only").asDouble()).isEqualTo(1);
        assertThat(lines.get(1).get("ratio_to_gpu_only").asDouble()).isCloseTo(both / alone, within(0.001));
        assertThat(lines.get(1).get("flags").asString()).contains("--strategy async-overlap");
    }
}
