package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.data.Percentage.withPercentage;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeFrequencies;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The kernels of a specification. What they cannot compute is refused by name before anything is loaded. */
class ModelShapeSpecTest {
    private static ModelSpec spec(String family) {
        return spec(family, Optional.empty());
    }

    private static ModelSpec spec(String family, Optional<Integer> maxModelLen) {
        Path directory = Path.of("../cpu/src/test/resources/families", family);
        try (Checkpoint checkpoint = Checkpoint.open(directory, LoadFormat.AUTO, 0, maxModelLen)) {
            return checkpoint.spec();
        }
    }

    /** The specification with other attention in its first layer, or in all. */
    private static ModelSpec with(ModelSpec spec, boolean all, UnaryOperator<LayerSpec.Attention> change) {
        List<LayerSpec> layers = spec.layers().stream()
                .map(layer -> all || layer == spec.layers().getFirst()
                        ? new LayerSpec(
                                change.apply(layer.attention()),
                                layer.intermediate(),
                                layer.activation(),
                                layer.norms())
                        : layer)
                .toList();
        return new ModelSpec(
                spec.family(),
                spec.hidden(),
                spec.vocabulary(),
                spec.contextTokens(),
                spec.normEpsilon(),
                spec.embeddingScale(),
                spec.tiedHead(),
                layers,
                spec.fileType(),
                spec.endTokens());
    }

    private static LayerSpec.Attention attention(LayerSpec.Attention a, double scale, int window, QkNorm norm) {
        return new LayerSpec.Attention(a.heads(), a.kvHeads(), a.headDim(), scale, window, a.rope(), norm, a.qkvBias());
    }

    @Test
    void refusesWindowsOfDifferentSizes() {
        ModelSpec spec = spec("mistralwindow");
        ModelSpec other = with(spec, false, a -> attention(a, a.scoreScale(), a.window() + 1, a.qkNorm()));
        assertThatThrownBy(() -> ModelShape.require(other))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("sliding windows of different sizes")
                .hasMessageContaining("run on the CPU with --device cpu");
    }

    /** The factor is put into the weights of the queries' norm. */
    @Test
    void refusesAFactorOfScoresWithoutANormOfQueries() {
        ModelSpec spec = with(spec("gemma3"), true, a -> attention(a, a.scoreScale() / 2, a.window(), a.qkNorm()));
        assertThatCode(() -> ModelShape.require(spec)).doesNotThrowAnyException();
        assertThat(DecoderVariant.of(spec).queryScale()).isEqualTo(0.5);
        ModelSpec without = with(spec, true, a -> attention(a, a.scoreScale(), a.window(), QkNorm.NONE));
        assertThatThrownBy(() -> ModelShape.require(without))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("another factor of scores");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "llama31",
                "mistral",
                "mistralwindow",
                "qwen25",
                "qwen3small",
                "phi3",
                "phi4mini",
                "olmo2",
                "smollm3",
                "olmo3",
                "gemma3",
                "gemma3vision"
            })
    void takesWhatTheKernelsCompute(String family) {
        assertThatCode(() -> ModelShape.require(spec(family))).doesNotThrowAnyException();
    }

    @Test
    void layersThatDoNotRotateHaveAnglesOfZero() {
        DecoderVariant variant = DecoderVariant.of(spec("smollm3"));
        assertThat(variant.rotations()).hasSize(2);
        Rope.Rotary rotary = (Rope.Rotary) variant.rotations().getFirst();
        float[] table = variant.rotationTable(8);
        assertThat(Arrays.copyOf(table, 4)).isEqualTo(RopeFrequencies.of(rotary, 8));
        assertThat(Arrays.copyOfRange(table, 4, 8)).containsOnly(0);
        assertThat(table).as("no factors").hasSize(8);
    }

    @Test
    void factorsOfARotationFollowAllFrequencies() {
        DecoderVariant variant = DecoderVariant.of(spec("olmo3"));
        assertThat(variant.rotations()).hasSize(2);
        float[] table = variant.rotationTable(8);
        assertThat(Arrays.copyOfRange(table, 8, 12)).as("without factor").containsOnly(1);
        assertThat(Arrays.copyOfRange(table, 12, 16)).as("YaRN").containsOnly(1.138629436f);
    }

    @Test
    void dimensionsThatDoNotRotateHaveNoFactor() {
        DecoderVariant variant = DecoderVariant.of(spec("phi4mini"));
        double magnitude = ((Rope.Rotary) variant.rotations().getFirst()).magnitude();
        assertThat(magnitude).isGreaterThan(1);
        float factor = (float) magnitude;
        assertThat(Arrays.copyOfRange(variant.rotationTable(16), 8, 16))
                .containsExactly(factor, factor, factor, factor, factor, factor, 1, 1);
    }

    /** Six of eight pairs rotate, at 10,000^(-i / 6) over the factor that the requested context chooses. */
    @Test
    void theTableHasLongRopesFactorsForTheRequestedContext() {
        double magnitude = Math.sqrt(1 + Math.log(8) / Math.log(32));
        for (boolean isLong : new boolean[] {false, true}) {
            float[] table = DecoderVariant.of(spec("phi4long", Optional.of(isLong ? 33 : 32)))
                    .rotationTable(16);
            assertThat(table).hasSize(16);
            for (int i = 0; i < 6; i++) {
                double factor = isLong ? 1.5 + i : 1 + 0.05 * i;
                assertThat(table[i])
                        .as("frequency %d, long %s", i, isLong)
                        .isCloseTo((float) (Math.pow(10_000, -i / 6.0) / factor), withPercentage(1e-4));
                assertThat(table[8 + i]).isEqualTo((float) magnitude);
            }
            assertThat(Arrays.copyOfRange(table, 6, 8)).containsOnly(0);
            assertThat(Arrays.copyOfRange(table, 14, 16)).containsOnly(1);
        }
    }

    @Test
    void kernelsAreCompiledForTheVariant() {
        assertThat(ModelShape.of(spec("gemma3"), DataType.BFLOAT16).defines())
                .contains("-DNORMS_ON_INPUTS=1", "-DNORMS_ON_OUTPUTS=1", "-DQK_NORM_ROWS=0", "-DROTATIONS=2")
                .contains("-DROTATION_FACTORS=0", "-DGELU=1", "-DEMBEDDING_SCALE=5.656854f");
        assertThat(ModelShape.of(spec("olmo3"), DataType.BFLOAT16).defines())
                .contains("-DNORMS_ON_INPUTS=0", "-DNORMS_ON_OUTPUTS=1", "-DQK_NORM_ROWS=1", "-DROTATIONS=2")
                .contains("-DROTATION_FACTORS=1", "-DGELU=0", "-DEMBEDDING_SCALE=1.0f");
    }
}
