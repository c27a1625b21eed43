package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.ModelConfig;
import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;

class ModelConfigurationsTest {
    @ParameterizedTest
    @FieldSource("dev.tandem.app.ModelConfigurations#NAMES")
    void theEngineAndTheIdealReadTheSameSizes(String name, @TempDir Path cache) throws IOException {
        ModelShape shape = HardwareOptions.shape(name);
        Path folder = ModelConfigurations.directory(name, cache);

        try (Checkpoint checkpoint = Checkpoint.open(folder, Checkpoint.LoadFormat.DUMMY, 0)) {
            ModelConfig config = checkpoint.config();
            assertThat(checkpoint.name()).isEqualTo(name);
            assertThat(config.layers()).isEqualTo(shape.layers());
            assertThat(config.decodeWeights())
                    .isEqualTo((long) (shape.layers() * shape.layerParameters() + shape.headParameters()));
            assertThat(2.0 * config.layers() * config.kvHeads() * config.headDim() * 2)
                    .isEqualTo(shape.kvBytesPerToken());
        }
    }

    /** KV bytes of a token in 16 bits, and weights in units of 1e9 bytes. */
    @ParameterizedTest
    @CsvSource({
        "Llama-3.1-8B, 131072, 16.1",
        "Llama-2-7B, 524288, 13.5",
        "Qwen3-14B, 163840, 29.5",
        "Qwen3-32B, 262144, 65.5"
    })
    void sizesAreThoseOfTheModels(String name, double kvBytes, double weights) throws IOException {
        ModelShape shape = HardwareOptions.shape(name);

        assertThat(shape.kvBytesPerToken()).isEqualTo(kvBytes);
        assertThat(Math.round(shape.weightBytes() / 1e8) / 10.0).isEqualTo(weights);
    }

    @Test
    void theHelpNamesAllModels() {
        assertThat(CommandRun.of("ideal", "--help").out()).contains(ModelConfigurations.NAMES);
    }
}
