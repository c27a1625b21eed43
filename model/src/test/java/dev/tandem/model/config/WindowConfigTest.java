package dev.tandem.model.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.offset;

import dev.tandem.model.ModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which layers have a window, and how they rotate, by {@code config.json}; the rules are those of transformers. */
class WindowConfigTest {
    @TempDir
    Path folder;

    /** A model of six layers with heads of 16. */
    private ModelSpec read(String family, String more) throws IOException {
        Files.writeString(folder.resolve("config.json"), """
                {"model_type": "%s", "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2,
                 "num_hidden_layers": 6,
                 "head_dim": 16, "intermediate_size": 8, "vocab_size": 10, "max_position_embeddings": 8192%s}
                """.formatted(family, more.isEmpty() ? "" : ", " + more));
        return HuggingFaceConfig.read(folder, Optional.empty());
    }

    /** Up to the original context the short factors serve all tokens, beyond it the long ones do. */
    @ParameterizedTest
    @CsvSource({", 1024, 1, 0", "1024, 1024, 1, 0", "2, 1024, 1, 0", "1025, 8192, 3, 4096", "9000, 8192, 3, 4096"})
    void theRequestedContextChoosesLongRopesFactors(Integer requested, int context, float factor, int window)
            throws IOException {
        read(
                "phi3",
                "\"original_max_position_embeddings\": 1024, \"sliding_window\": 4096, \"rope_scaling\":"
                        + " {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1],"
                        + " \"long_factor\": [3, 3, 3, 3, 3, 3, 3, 3]}");
        ModelSpec spec = HuggingFaceConfig.read(folder, Optional.ofNullable(requested));
        assertThat(spec.contextTokens()).isEqualTo(context);
        assertThat(windows(spec)).containsOnly(window);
        RopeScaling.LongRope scaling = (RopeScaling.LongRope) spec.rotary().scaling();
        assertThat(scaling.divisors().divisors()).hasSize(8).containsOnly(factor);
        assertThat(scaling.isLong(spec.contextTokens())).isEqualTo(factor == 3);
        assertThat(scaling.maxContext()).isEqualTo(8192);
        assertThat(spec.rotary().magnitude()).isEqualTo(Math.sqrt(1 + Math.log(8) / Math.log(1024)));
        assertThat(RopeFrequencies.of(spec.rotary(), 16)[0]).isEqualTo(1 / factor);
    }

    private static List<Integer> windows(ModelSpec spec) {
        return spec.layers().stream().map(layer -> layer.attention().window()).toList();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '\'',
            value = {
                "mistral | '' | 4096 4096 4096 4096 4096 4096",
                "mistral | '\"sliding_window\": null' | 0 0 0 0 0 0",
                "mistral | '\"sliding_window\": 100' | 100 100 100 100 100 100",
                "mistral | '\"sliding_window\": 8192' | 0 0 0 0 0 0",
                "phi3 | '' | 0 0 0 0 0 0",
                "phi3 | '\"sliding_window\": 2047' | 2047 2047 2047 2047 2047 2047",
                "llama | '\"sliding_window\": 100, \"use_sliding_window\": true' | 0 0 0 0 0 0",
                "qwen2 | '\"sliding_window\": 100' | 0 0 0 0 0 0",
                "qwen2 | '\"use_sliding_window\": true, \"max_window_layers\": 4' | 0 0 0 0 4096 4096",
                "qwen3 | '\"use_sliding_window\": true, \"sliding_window\": 9, \"layer_types\": [\"full_attention\","
                        + " \"sliding_attention\", \"full_attention\", \"full_attention\", \"full_attention\","
                        + " \"full_attention\"]' | 0 9 0 0 0 0",
                "smollm3 | '\"use_sliding_window\": true, \"sliding_window\": 9' | 0 0 0 9 0 0",
                "olmo3 | '\"sliding_window\": 9' | 9 9 9 0 9 9",
                "gemma3_text | '' | 4096 4096 4096 4096 4096 0",
                "gemma3_text | '\"sliding_window\": 512, \"sliding_window_pattern\": 2' | 512 0 512 0 512 0"
            })
    void layersWithWindows(String family, String more, String expected) throws IOException {
        assertThat(windows(read(family, more))).map(String::valueOf).containsExactly(expected.split(" "));
    }

    @Test
    void windowsOfAllLayersReachTheSizes() throws IOException {
        assertThat(read("olmo3", "\"sliding_window\": 9").config().windows()).containsExactly(9, 9, 9, 0, 9, 9);
        assertThat(read("olmo3", "\"sliding_window\": 9").config().window(3)).isZero();
        assertThat(read("llama", "").config().windows()).isEmpty();
    }

    @Test
    void gemmaScalesOnlyLayersWithoutWindow() throws IOException {
        ModelSpec old = read("gemma3_text", """
                "rope_theta": 1000000.0, "rope_local_base_freq": 20000.0, "query_pre_attn_scalar": 168,
                "rope_scaling": {"rope_type": "linear", "factor": 8.0}""");
        assertThat(old.layers().get(4).attention().rope()).isEqualTo(new Rope.Rotary(16, 20_000, RopeScaling.NONE, 1));
        assertThat(old.layers().get(5).attention().rope())
                .isEqualTo(new Rope.Rotary(16, 1e6, new RopeScaling.Linear(8), 1));
        assertThat(old.attention().scoreScale()).isEqualTo(1 / Math.sqrt(168), offset(1e-12));
        assertThat(old.embeddingScale()).isEqualTo(Math.sqrt(32), offset(1e-12));
        assertThat(old.tiedHead()).isTrue();
        ModelSpec today = read("gemma3_text", """
                "query_pre_attn_scalar": 168, "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}""");
        assertThat(today).isEqualTo(old);
    }

    @Test
    void olmo3ScalesOnlyLayersWithoutWindow() throws IOException {
        ModelSpec spec = read("olmo3", """
                "rope_theta": 500000, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.25,
                "original_max_position_embeddings": 1024, "beta_fast": 30, "beta_slow": 2}""");
        assertThat(spec.rotations())
                .containsExactly(
                        new Rope.Rotary(16, 500_000, RopeScaling.NONE, 1),
                        new Rope.Rotary(16, 500_000, new RopeScaling.Yarn(8, 30, 2, 1024, true), 1.25));
    }

    @Test
    void refusesByName() {
        assertThatThrownBy(() -> read("olmo3", "\"layer_types\": [\"full_attention\"]"))
                .isInstanceOf(ModelException.class)
                .hasMessageContaining("layer_types has 1 entries, none for layer 1");
        assertThatThrownBy(() -> read("gemma3_text", "\"sliding_window_pattern\": 0"))
                .hasMessageContaining("sliding_window_pattern is 0; it must be at least 1");
        assertThatThrownBy(() -> read("gemma3_text", "\"hidden_activation\": \"silu\""))
                .hasMessageContaining("hidden_activation 'silu' is not supported; gelu_pytorch_tanh is");
        assertThatThrownBy(() -> read("gemma3_text", "\"final_logit_softcapping\": 30.0"))
                .hasMessageContaining("final_logit_softcapping is 30.0");
        assertThatThrownBy(() -> read("gemma3_text", "\"use_bidirectional_attention\": true"))
                .hasMessageContaining("use_bidirectional_attention is true");
        assertThatThrownBy(() -> read("gemma3_text", "\"query_pre_attn_scalar\": -1"))
                .hasMessageContaining("the factor of attention scores is NaN; it must be a positive number");
    }
}
