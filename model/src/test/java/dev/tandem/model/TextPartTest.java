package dev.tandem.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.model.config.DataType;
import dev.tandem.model.config.HuggingFaceConfig;
import dev.tandem.model.config.ModelSpec;
import dev.tandem.model.config.Rope;
import dev.tandem.model.config.RopeScaling;
import dev.tandem.model.weights.ElementType;
import dev.tandem.model.weights.StoredTensors;
import dev.tandem.model.weights.Tensor;
import dev.tandem.model.weights.TextTensors;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Of a model that also takes images, the text part is read. */
class TextPartTest {
    @TempDir
    Path folder;

    /** As the files of Gemma-3-4B have it: sizes that are defaults of transformers are left out. */
    @Test
    void configurationOfTheTextPart() throws IOException {
        Files.writeString(folder.resolve("config.json"), """
                {"model_type": "gemma3", "eos_token_id": [1, 106], "torch_dtype": "bfloat16",
                 "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                  "num_hidden_layers": 34, "sliding_window": 1024,
                  "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
                 "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}}""");
        ModelSpec spec = HuggingFaceConfig.read(folder, Optional.empty());
        assertThat(spec.family()).isEqualTo("gemma3_text");
        assertThat(spec.config().heads()).isEqualTo(8);
        assertThat(spec.config().kvHeads()).isEqualTo(4);
        assertThat(spec.config().headDim()).isEqualTo(256);
        assertThat(spec.vocabulary()).isEqualTo(262_208);
        assertThat(spec.contextTokens()).isEqualTo(131_072);
        assertThat(spec.endTokens()).containsExactlyInAnyOrder(1, 106);
        assertThat(spec.fileType()).isEqualTo(DataType.BFLOAT16);
        assertThat(spec.tiedHead()).isTrue();
        assertThat(spec.layers().get(5).attention().rope())
                .isEqualTo(new Rope.Rotary(256, 1e6, new RopeScaling.Linear(8), 1));
        assertThat(HuggingFaceConfig.takesImages(folder)).isTrue();
    }

    /** Some versions write the text part's name before the names, some within them. */
    @Test
    void tensorsHaveTheNamesOfAModelOfText() {
        TextTensors before = new TextTensors(new Names(Set.of(
                "language_model.model.norm.weight",
                "language_model.lm_head.weight",
                "vision_tower.encoder.weight",
                "vision_tower.head.weight",
                "multi_modal_projector.norm.weight")));
        TextTensors within = new TextTensors(new Names(Set.of(
                "model.language_model.norm.weight",
                "lm_head.weight",
                "model.vision_tower.encoder.weight",
                "model.vision_tower.head.weight",
                "model.multi_modal_projector.norm.weight")));
        for (TextTensors tensors : new TextTensors[] {before, within}) {
            assertThat(tensors.names()).containsExactlyInAnyOrder("model.norm.weight", "lm_head.weight");
            assertThat(tensors.contains("model.norm.weight")).isTrue();
            assertThat(tensors.unused()).isEqualTo(3);
            assertThat(tensors.unusedParts()).containsExactly("multi_modal_projector", "vision_tower");
        }
        assertThat(before.tensor("model.norm.weight").name()).isEqualTo("language_model.model.norm.weight");
        assertThat(within.tensor("model.norm.weight").name()).isEqualTo("model.language_model.norm.weight");
        assertThatThrownBy(() -> before.tensor("model.embed_tokens.weight"))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("language_model.model.embed_tokens.weight")
                .hasMessageContaining("model.language_model.embed_tokens.weight");
    }

    /** Tensors of which only the names matter. */
    private record Names(Set<String> names) implements StoredTensors {
        @Override
        public boolean contains(String name) {
            return names.contains(name);
        }

        @Override
        public Tensor tensor(String name) {
            return Tensor.of(name, ElementType.F32, 1, 1, MemorySegment.ofArray(new byte[4]));
        }

        @Override
        public String origin() {
            return "names";
        }

        @Override
        public void close() {}
    }
}
