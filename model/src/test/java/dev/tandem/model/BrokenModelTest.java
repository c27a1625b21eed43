package dev.tandem.model;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.model.Checkpoint.LoadFormat;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Broken files are refused with a message that says what is wrong. */
class BrokenModelTest {
    private static final String CONFIG = """
            {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 1, "intermediate_size": 16, "vocab_size": 10, "max_position_embeddings": 32}""";

    @TempDir
    Path folder;

    private void config(String text) throws IOException {
        Files.writeString(folder.resolve("config.json"), text);
    }

    private void safetensors(String header, int dataBytes) throws IOException {
        byte[] json = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer file = ByteBuffer.allocate(8 + json.length + dataBytes).order(ByteOrder.LITTLE_ENDIAN);
        file.putLong(json.length).put(json);
        Files.write(folder.resolve("model.safetensors"), file.array());
    }

    private void assertRefused(String message) {
        assertThatThrownBy(() -> Checkpoint.open(folder, LoadFormat.AUTO, 0).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining(message);
    }

    @Test
    void namesWhatIsMissing() throws IOException {
        assertRefused("config.json cannot be read");
        config("{");
        assertRefused("not valid JSON");
        config("{\"model_type\": \"gpt2\"}");
        assertRefused("model_type 'gpt2' is not supported; supported are [llama, mistral, qwen2, qwen3]");
        config(CONFIG.replace("\"hidden_size\": 8,", ""));
        assertRefused("the integer 'hidden_size' is missing");
        config(CONFIG.replace("\"hidden_size\": 8", "\"hidden_size\": -8"));
        assertRefused("hidden_size is -8");
        config(CONFIG.replace("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3"));
        assertRefused("do not divide");
        config(CONFIG.replace("}", ", \"rope_scaling\": {\"rope_type\": \"yarn\"}}"));
        assertRefused("rope scaling 'yarn' is not supported");
        config(CONFIG.replace("}", ", \"hidden_act\": \"gelu\"}"));
        assertRefused("hidden_act 'gelu'");
        config(CONFIG);
        assertRefused("holds neither model.safetensors nor");
    }

    @Test
    void refusesBrokenSafetensors() throws IOException {
        config(CONFIG);
        Files.write(folder.resolve("model.safetensors"), new byte[] {1, 2, 3});
        assertRefused("is truncated: 3 bytes");
        Files.write(folder.resolve("model.safetensors"), new byte[] {-1, -1, -1, -1, -1, -1, -1, 127, 0});
        assertRefused("is not a safetensors file");
        safetensors("{\"a\"", 0);
        assertRefused("header is not valid JSON");
        safetensors("{\"a\": {\"dtype\": \"I8\", \"shape\": [2], \"data_offsets\": [0, 2]}}", 2);
        assertRefused("has data type \"I8\"");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [4, 4], \"data_offsets\": [0, 64]}}", 60);
        assertRefused("is truncated: tensor a lies at bytes [0, 64) of 60");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [4, 4], \"data_offsets\": [0, 60]}}", 64);
        assertRefused("has 60 bytes but its shape [4,4] needs 64");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [-4], \"data_offsets\": [0, 16]}}", 64);
        assertRefused("impossible shape");
    }

    @Test
    void refusesMissingTensorsAndWrongShapes() throws IOException {
        config(CONFIG);
        safetensors("{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}}", 32);
        try (Checkpoint checkpoint = Checkpoint.open(folder, LoadFormat.AUTO, 0)) {
            assertThatThrownBy(() -> checkpoint.weights().tensor("lm_head.weight"))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("has no tensor lm_head.weight among its 1");
            assertThatThrownBy(() -> checkpoint.weights().vector("model.norm.weight", 9))
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("has shape [1, 8] but the configuration asks for [1, 9]");
        }
    }

    @Test
    void refusesBrokenGguf() throws IOException {
        Path file = folder.resolve("m.gguf");
        Files.write(file, "not a model".getBytes(StandardCharsets.UTF_8));
        assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0)).hasMessageContaining("is not a GGUF file");
        Files.write(file, new byte[] {'G', 'G', 'U', 'F', 2, 0, 0, 0});
        assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0)).hasMessageContaining("is GGUF version 2");
        Files.write(file, new byte[] {'G', 'G'});
        assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0)).hasMessageContaining("truncated");
        assertThatThrownBy(() -> Checkpoint.open(folder.resolve("none.gguf"), LoadFormat.AUTO, 0))
                .hasMessageContaining("does not exist");
    }

    /** Whatever the bytes, the answer is a ModelException: no crash, no endless loop, no absurd allocation. */
    @Test
    void survivesRandomGgufHeaders() throws IOException {
        long seed = 99;
        SplittableRandom random = new SplittableRandom(seed);
        Path file = folder.resolve("random.gguf");
        for (int round = 0; round < 500; round++) {
            byte[] bytes = new byte[24 + random.nextInt(200)];
            random.nextBytes(bytes);
            ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(0x46554747).putInt(3)
                    .putLong(random.nextInt(3)).putLong(random.nextInt(4));
            if (random.nextBoolean() && bytes.length > 40) {
                Arrays.fill(bytes, 28, 36, (byte) 0);
            }
            Files.write(file, bytes);
            assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0).close())
                    .as("seed %d round %d", seed, round)
                    .isInstanceOf(ModelException.class);
        }
    }
}
