package dev.tandem.model.gguf;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.QkNorm;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.Weights;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What is read from GGUF files, and what is refused before any weight is read. */
class GgufModelTest {
    @TempDir
    Path folder;

    private Checkpoint open(GgufBuilder builder) throws IOException {
        return Checkpoint.open(builder.write(folder.resolve("m.gguf")), LoadFormat.AUTO, 0);
    }

    private void assertRefused(GgufBuilder builder, String message) {
        assertThatThrownBy(() -> open(builder).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining(message);
    }

    private static GgufBuilder withBiases(String architecture) {
        return GgufBuilder.model(architecture)
                .tensor("blk.0.attn_q.bias", 8)
                .tensor("blk.0.attn_k.bias", 4)
                .tensor("blk.0.attn_v.bias", 4);
    }

    private static float[] column(Weights weights, String name, int rows) {
        float[] values = new float[rows];
        float[] row = new float[8];
        for (int i = 0; i < rows; i++) {
            weights.tensor(name).row(i, row, 0);
            values[i] = row[0] % 1000;
        }
        return values;
    }

    private static float[] bias(Weights weights, String name, int length) {
        float[] values = weights.vector(name, length);
        for (int i = 0; i < length; i++) {
            values[i] %= 1000;
        }
        return values;
    }

    /** Files of the llama architecture hold rotated pairs adjacent, in weights and in biases. */
    @Test
    void biasesOfQueriesAndKeysAreReorderedAsTheirRowsAre() throws IOException {
        try (Checkpoint checkpoint = open(withBiases("llama"))) {
            Weights weights = checkpoint.weights();
            assertThat(column(weights, "model.layers.0.self_attn.q_proj.weight", 8))
                    .containsExactly(0, 16, 8, 24, 32, 48, 40, 56);
            assertThat(bias(weights, "model.layers.0.self_attn.q_proj.bias", 8))
                    .containsExactly(0, 2, 1, 3, 4, 6, 5, 7);
            assertThat(bias(weights, "model.layers.0.self_attn.k_proj.bias", 4)).containsExactly(0, 2, 1, 3);
            assertThat(bias(weights, "model.layers.0.self_attn.v_proj.bias", 4)).containsExactly(0, 1, 2, 3);
        }
    }

    @Test
    void rowsOfQwenStandAsTheyAre() throws IOException {
        try (Checkpoint checkpoint = open(withBiases("qwen2"))) {
            assertThat(checkpoint.spec().attention().qkvBias()).isTrue();
            assertThat(column(checkpoint.weights(), "model.layers.0.self_attn.q_proj.weight", 4))
                    .containsExactly(0, 8, 16, 24);
            assertThat(bias(checkpoint.weights(), "model.layers.0.self_attn.k_proj.bias", 4))
                    .containsExactly(0, 1, 2, 3);
        }
        GgufBuilder qwen3 =
                GgufBuilder.model("qwen3").tensor("blk.0.attn_q_norm.weight", 4).tensor("blk.0.attn_k_norm.weight", 4);
        try (Checkpoint checkpoint = open(qwen3)) {
            assertThat(checkpoint.spec().attention().qkNorm()).isEqualTo(QkNorm.PER_HEAD);
        }
    }

    /** Pairs that do not rotate come last in each half of the model's head. */
    @Test
    void readsHowManyDimensionsRotate() throws IOException {
        GgufBuilder partial = GgufBuilder.model("llama").set("llama.rope.dimension_count", 2);
        try (Checkpoint checkpoint = open(partial)) {
            assertThat(checkpoint.spec().rotary().dims()).isEqualTo(2);
            assertThat(column(checkpoint.weights(), "model.layers.0.self_attn.k_proj.weight", 4))
                    .containsExactly(0, 16, 8, 24);
        }
        assertRefused(
                GgufBuilder.model("llama").set("llama.rope.dimension_count", 6),
                "rotation of 6 dimensions of heads of 4 is impossible");
    }

    @Test
    void everyFourthLayerOfSmolLm3DoesNotRotate() throws IOException {
        GgufBuilder file = GgufBuilder.model("smollm3").set("smollm3.block_count", 4);
        for (int layer = 1; layer < 4; layer++) {
            addLayer(file, layer);
        }
        try (Checkpoint checkpoint = open(file)) {
            assertThat(checkpoint.spec().layers().stream()
                            .map(layer -> layer.attention().rope() instanceof Rope.None))
                    .containsExactly(false, false, false, true);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"expert_count", "attention.scale", "final_logit_softcapping", "logit_scale"})
    void refusesByNameWhatChangesTheComputation(String key) throws IOException {
        assertRefused(GgufBuilder.model("llama").set("llama." + key, 8), "llama." + key + " is 8.0; models with it");
        open(GgufBuilder.model("llama").set("llama." + key, 0)).close();
    }

    @Test
    void refusesValuesOfAnotherSizeThanKeys() {
        assertRefused(
                GgufBuilder.model("llama").set("llama.attention.value_length", 2),
                "attention.value_length is 2 and the keys have 4 dimensions");
    }

    @Test
    void missingAndUnreadTensorsAreNamedAtOnce() {
        assertRefused(
                GgufBuilder.model("llama").without("blk.0.ffn_down.weight"), "has no tensor blk.0.ffn_down.weight");
        assertRefused(
                GgufBuilder.model("llama").tensor("blk.0.attn_output.bias", 8),
                "the tensor blk.0.attn_output.bias is not supported in models of the family llama");
        assertRefused(
                GgufBuilder.model("llama").without("blk.0.attn_q.weight").tensor("blk.0.attn_q.weight", 8, 6),
                "has shape [6, 8] but the configuration needs [8, 8]");
    }

    /** Stacked matrices are one tall matrix; what would read them does not exist yet, so they are refused by name. */
    @Test
    void tensorsOfThreeDimensionsAreRead() throws IOException {
        GgufBuilder stacked = GgufBuilder.model("llama").tensor("other.weight", 8, 3, 2);
        try (GgufFile file = GgufFile.open(stacked.write(folder.resolve("m.gguf")))) {
            assertThat(file.tensors().get("other.weight").rows()).isEqualTo(6);
        }
        assertRefused(
                GgufBuilder.model("llama").tensor("blk.0.ffn_gate_exps.weight", 8, 6, 2),
                "the tensor blk.0.ffn_gate_exps.weight is not supported");
        assertRefused(GgufBuilder.model("llama").tensor("t", 1, 1, 1, 1), "has 4 dimensions, not 1 to 3");
    }

    private Path part(int number, GgufBuilder builder) throws IOException {
        return builder.set("split.count", 2)
                .set("split.no", number - 1)
                .set("split.tensors.count", 11)
                .write(folder.resolve(String.format(Locale.ROOT, "m-%05d-of-00002.gguf", number)));
    }

    @Test
    void partsOfASplitModelAreJoined() throws IOException {
        String moved = "blk.0.ffn_down.weight";
        Path first = part(1, GgufBuilder.model("llama").without(moved));
        assertThatThrownBy(() -> Checkpoint.open(first, LoadFormat.AUTO, 0))
                .hasMessageContaining("m-00002-of-00002.gguf is missing; put all parts into one directory");
        Path second = part(2, new GgufBuilder().tensor(moved, 6, 8));
        try (Checkpoint checkpoint = Checkpoint.open(first, LoadFormat.AUTO, 0)) {
            assertThat(checkpoint
                            .weights()
                            .tensor("model.layers.0.mlp.down_proj.weight")
                            .rows())
                    .isEqualTo(8);
        }
        assertThatThrownBy(() -> Checkpoint.open(second, LoadFormat.AUTO, 0))
                .hasMessageContaining("is part 2 of 2 of a split model; give its first part");
        part(2, new GgufBuilder().tensor(moved, 6, 8).tensor("more", 8));
        assertThatThrownBy(() -> Checkpoint.open(first, LoadFormat.AUTO, 0))
                .hasMessageContaining("have 12 tensors; split.tensors.count is 11");
        part(2, new GgufBuilder().tensor(moved, 6, 8).tensor("output_norm.weight", 8));
        assertThatThrownBy(() -> Checkpoint.open(first, LoadFormat.AUTO, 0))
                .hasMessageContaining("has the tensor output_norm.weight, which another part has too");
    }

    /** The type of KV where --dtype is auto. */
    @Test
    void valuesOfSixteenBitsAreTheDefaultForQuantisedFiles() {
        for (ElementType type : ElementType.values()) {
            DataType expected = type == ElementType.F32
                    ? DataType.FLOAT32
                    : type == ElementType.F16 ? DataType.FLOAT16 : DataType.BFLOAT16;
            assertThat(GgufConfig.storage(Set.of(type))).as("%s", type).isEqualTo(expected);
        }
        assertThat(GgufConfig.storage(Set.of(ElementType.F32, ElementType.Q4_K, ElementType.Q6_K)))
                .isEqualTo(DataType.BFLOAT16);
        assertThat(GgufConfig.storage(Set.of(ElementType.F16, ElementType.F32))).isEqualTo(DataType.FLOAT32);
    }

    private Checkpoint open(GgufBuilder builder, int maxModelLen) throws IOException {
        return Checkpoint.open(builder.write(folder.resolve("m.gguf")), LoadFormat.AUTO, 0, Optional.of(maxModelLen));
    }

    /** The original context is a quarter of the whole one, and a window lies between them. */
    @Test
    void theRequestedContextChoosesLongRopesFactors() throws IOException {
        GgufBuilder model = GgufBuilder.model("llama")
                .set("llama.context_length", 128)
                .set("llama.rope.scaling.original_context_length", 32)
                .set("llama.attention.sliding_window", 40)
                .tensor("rope_factors_short.weight", 2);
        assertThatThrownBy(() -> open(model, 33).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("rope_factors_long.weight is missing, which contexts of more than 32 tokens need")
                .hasMessageContaining("lower --max-model-len to 32");
        model.tensor("rope_factors_long.weight", 2);
        double magnitude = Math.sqrt(1 + Math.log(4) / Math.log(32));
        float[] longDivisors;
        try (Checkpoint checkpoint = open(model, 33)) {
            assertThat(checkpoint.config().contextTokens()).isEqualTo(128);
            assertThat(windows(checkpoint)).containsExactly(40);
            assertThat(checkpoint.spec().rotary().magnitude()).isEqualTo(magnitude);
            longDivisors = longRope(checkpoint).divisors().divisors();
        }
        for (Checkpoint checkpoint : List.of(open(model), open(model, 32))) {
            try (checkpoint) {
                assertThat(checkpoint.config().contextTokens()).isEqualTo(32);
                assertThat(windows(checkpoint)).containsExactly(0);
                assertThat(checkpoint.spec().rotary().magnitude()).isEqualTo(magnitude);
                assertThat(longRope(checkpoint).divisors().divisors())
                        .hasSize(2)
                        .isNotEqualTo(longDivisors);
            }
        }
    }

    private static RopeScaling.LongRope longRope(Checkpoint checkpoint) {
        return (RopeScaling.LongRope) checkpoint.spec().rotary().scaling();
    }

    /** Adds the tensors that a layer of every dense family has. */
    private static GgufBuilder addLayer(GgufBuilder file, int layer) {
        String prefix = "blk." + layer + ".";
        return file.tensor(prefix + "attn_norm.weight", 8)
                .tensor(prefix + "attn_q.weight", 8, 8)
                .tensor(prefix + "attn_k.weight", 8, 4)
                .tensor(prefix + "attn_v.weight", 8, 4)
                .tensor(prefix + "attn_output.weight", 8, 8)
                .tensor(prefix + "ffn_norm.weight", 8)
                .tensor(prefix + "ffn_gate.weight", 8, 6)
                .tensor(prefix + "ffn_up.weight", 8, 6)
                .tensor(prefix + "ffn_down.weight", 6, 8);
    }

    private static GgufBuilder gemma(int layers) {
        GgufBuilder file = GgufBuilder.model("gemma3").set("gemma3.block_count", layers);
        for (int layer = 0; layer < layers; layer++) {
            String prefix = "blk." + layer + ".";
            addLayer(file, layer)
                    .tensor(prefix + "attn_q_norm.weight", 4)
                    .tensor(prefix + "attn_k_norm.weight", 4)
                    .tensor(prefix + "post_attention_norm.weight", 8)
                    .tensor(prefix + "post_ffw_norm.weight", 8);
        }
        return file.set("gemma3.attention.sliding_window", 20);
    }

    private static List<Integer> windows(Checkpoint checkpoint) {
        return checkpoint.spec().layers().stream()
                .map(layer -> layer.attention().window())
                .toList();
    }

    /** Files of Gemma 3 may leave out the period of windows and the base of their layers' rotation. */
    @Test
    void gemmaHasWindowsInFiveOfSixLayers() throws IOException {
        try (Checkpoint checkpoint = open(gemma(7))) {
            assertThat(windows(checkpoint)).containsExactly(20, 20, 20, 20, 20, 0, 20);
            assertThat(checkpoint.spec().rotations())
                    .containsExactly(
                            new Rope.Rotary(4, 10_000, RopeScaling.NONE, 1),
                            new Rope.Rotary(4, 1_000_000, RopeScaling.NONE, 1));
            assertThat(checkpoint.spec().attention().scoreScale()).isEqualTo(0.5);
        }
        GgufBuilder named = gemma(3).set("gemma3.attention.sliding_window_pattern", 2)
                .set("gemma3.rope.freq_base", 300.0)
                .set("gemma3.rope.freq_base_swa", 200.0)
                .set("gemma3.rope.scaling.type", "linear")
                .set("gemma3.rope.scaling.factor", 8.0);
        try (Checkpoint checkpoint = open(named)) {
            assertThat(windows(checkpoint)).containsExactly(20, 0, 20);
            assertThat(checkpoint.spec().rotations())
                    .containsExactly(
                            new Rope.Rotary(4, 200, RopeScaling.NONE, 1),
                            new Rope.Rotary(4, 300, new RopeScaling.Linear(8), 1));
        }
        assertRefused(
                gemma(1).set("gemma3.attention.sliding_window_pattern", 0),
                "gemma3.attention.sliding_window_pattern is 0; it must be at least 1");
        assertRefused(
                gemma(2).set("gemma3.attention.sliding_window_pattern", new Object[] {"x"}),
                "gemma3.attention.sliding_window_pattern has 1 entries, none for layer 1");
    }

    /** The file has no key for it: the largest model scales by its width per head. */
    @Test
    void gemma27bScalesScoresByTheWidthPerHead() throws IOException {
        GgufBuilder wide = gemma(62).set("gemma3.attention.head_count", 1).set("gemma3.attention.key_length", 4);
        for (int layer = 0; layer < 62; layer++) {
            wide.tensor("blk." + layer + ".attn_q.weight", 8, 4).tensor("blk." + layer + ".attn_output.weight", 4, 8);
        }
        try (GgufFile file = GgufFile.open(wide.write(folder.resolve("m.gguf")))) {
            assertThat(GgufConfig.read(file, Optional.empty()).attention().scoreScale())
                    .isEqualTo(1 / Math.sqrt(8));
        }
    }
}
