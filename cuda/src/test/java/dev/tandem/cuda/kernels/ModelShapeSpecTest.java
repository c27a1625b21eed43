package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Families that the kernels cannot compute are refused by name before anything is loaded. */
class ModelShapeSpecTest {
    private static Checkpoint open(String family) {
        return Checkpoint.open(Path.of("../cpu/src/test/resources/families", family), LoadFormat.AUTO, 0);
    }

    @ParameterizedTest
    @CsvSource({
        "olmo2, norms on the outputs of attention and MLP",
        "smollm3, layers without rotary embedding",
        "phi4mini, 'a factor of rotated dimensions (LongRoPE, YaRN)'",
        "olmo3, norms on the outputs of attention and MLP",
        "gemma3, norms on the outputs of attention and MLP"
    })
    void refusesWhatTheKernelsLack(String family, String what) {
        try (Checkpoint checkpoint = open(family)) {
            assertThatThrownBy(() -> ModelShape.require(checkpoint.spec()))
                    .isInstanceOf(CudaException.class)
                    .hasMessageContaining(what)
                    .hasMessageContaining("run on the CPU with --device cpu");
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"llama31", "mistral", "mistralwindow", "qwen25", "qwen3small", "phi3"})
    void takesWhatTheKernelsCompute(String family) {
        try (Checkpoint checkpoint = open(family)) {
            assertThatCode(() -> ModelShape.require(checkpoint.spec())).doesNotThrowAnyException();
        }
    }
}
