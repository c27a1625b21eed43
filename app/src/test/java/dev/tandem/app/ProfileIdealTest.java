package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.Workload;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.model.Checkpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Measured results are held against one ideal, whatever their strategy. */
class ProfileIdealTest {
    private static final double HOST_BYTES = 36e9;

    private static Profile profile;

    @BeforeAll
    static void read() throws IOException {
        profile = Profile.parse(Files.readString(Path.of("../docs/results/profiles/h200.txt")), "h200");
    }

    private static Map<String, Object> complete(String strategy, double rate, double defaultHost, Path folder)
            throws IOException {
        Files.writeString(folder.resolve("config.json"), ModelConfigurations.json("Llama-3.1-8B"));
        ModelOptions options = new ModelOptions();
        options.gpu.device = "cuda";
        options.strategy.strategy = strategy;
        options.memory.gpuBlocks = Optional.of(1650);
        ExecutorLimits limits;
        try (Checkpoint checkpoint = Checkpoint.open(folder, Checkpoint.LoadFormat.DUMMY, 0)) {
            limits = SimulationOptions.limits(options, checkpoint.config(), profile);
        }
        Map<String, Object> result = new HashMap<>(Map.of("output_tokens_per_second", rate));
        ProfileIdeal.complete(result, options, profile, limits, Workload.parse("synthetic:1000/400", 0), defaultHost);
        return result;
    }

    @Test
    void strategiesHaveOneIdealThoughGpuOnlyHasNoHostTier(@TempDir Path folder) throws IOException {
        Map<String, Object> alone = complete("gpu-only", 1000, HOST_BYTES, folder);
        Map<String, Object> both = complete("adaptive", 1100, HOST_BYTES, folder);

        double ideal = (double) alone.get("ideal_output_tokens_per_second");
        assertThat(both).containsEntry("ideal_output_tokens_per_second", ideal);
        assertThat((double) alone.get("share_of_ideal")).isCloseTo(1000 / ideal, within(1e-3));
        assertThat((double) both.get("share_of_ideal")).isCloseTo(1100 / ideal, within(1e-3));
        assertThat((double) alone.get("ideal_ratio")).isGreaterThan(1.05);
    }

    @Test
    void moreHostMemoryRaisesTheIdeal(@TempDir Path folder) throws IOException {
        assertThat((double) complete("gpu-only", 1000, HOST_BYTES, folder).get("ideal_ratio"))
                .isGreaterThan((double)
                        complete("gpu-only", 1000, HOST_BYTES / 20, folder).get("ideal_ratio"));
    }
}
