package dev.tandem.model;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.model.Checkpoint.LoadFormat;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Broken files are refused with a message that names the problem. */
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
        assertRefused("model_type 'gpt2' is not supported; supported are [gemma3, gemma3_text, llama, mistral, olmo2,"
                + " olmo3, phi3, qwen2, qwen3, smollm3]");
        config("{\"model_type\": \"gemma3\"}");
        assertRefused("'text_config' is missing");
        config(CONFIG.replace("\"hidden_size\": 8,", ""));
        assertRefused("the integer 'hidden_size' is missing");
        config(CONFIG.replace("\"hidden_size\": 8", "\"hidden_size\": -8"));
        assertRefused("hidden_size is -8");
        config(CONFIG.replace("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3"));
        assertRefused("do not divide");
        config(CONFIG.replace("}", ", \"rope_scaling\": {\"rope_type\": \"dynamic\"}}"));
        assertRefused("rope scaling 'dynamic' is not supported");
        config(CONFIG.replace("}", ", \"hidden_act\": \"gelu\"}"));
        assertRefused("hidden_act 'gelu'");
        config(CONFIG.replace("}", ", \"mlp_bias\": true}"));
        assertRefused("mlp_bias is true; models with it are not supported");
        config(CONFIG.replace("}", ", \"quantization_config\": {\"quant_method\": \"awq\"}}"));
        assertRefused("quantization_config is {\"quant_method\":\"awq\"}; models with it are not supported");
        config(CONFIG.replace("}", ", \"layer_types\": [\"linear_attention\"]}"));
        assertRefused("layer_types has \"linear_attention\"; supported are full_attention and sliding_attention");
        config(CONFIG.replace("}", ", \"partial_rotary_factor\": 0.5}"));
        assertRefused("partial_rotary_factor 0.5 is not supported in models of the family llama");
        config(CONFIG.replace("\"llama\"", "\"smollm3\"").replace("}", ", \"no_rope_layers\": []}"));
        assertRefused("no_rope_layers has 0 entries, none for layer 0");
        config(CONFIG);
        assertRefused("has neither model.safetensors nor");
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
        assertRefused("has data type 'I8'");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [4, 4], \"data_offsets\": [0, 64]}}", 60);
        assertRefused("is truncated: tensor a lies at bytes [0, 64) of 60");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [4, 4], \"data_offsets\": [0, 60]}}", 64);
        assertRefused("has 60 bytes but its shape [4, 4] of F32 needs another number");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [-4], \"data_offsets\": [0, 16]}}", 64);
        assertRefused("impossible shape");
    }

    @Test
    void refusesMissingTensorsAndWrongShapes() throws IOException {
        config(CONFIG);
        safetensors("{\"model.norm.weight\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}}", 32);
        assertRefused("has no tensor model.embed_tokens.weight among its 1");
        safetensors(
                "{\"model.embed_tokens.weight\": {\"dtype\": \"F32\", \"shape\": [9, 8], \"data_offsets\": [0, 288]}}",
                288);
        assertRefused("tensor model.embed_tokens.weight has shape [9, 8] but the configuration needs [10, 8]");
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

    @Test
    void refusesSizesThatOverflow() throws IOException {
        config(CONFIG);
        // (2^31 - 1) x (2^31 - 1) values of 4 bytes overflow to 4 bytes
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [2147483647, 2147483647], \"data_offsets\": [0, 4]}}", 4);
        assertRefused("tensor a has 4 bytes but its shape [2147483647, 2147483647]");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [1e99], \"data_offsets\": [0, 4]}}", 4);
        assertRefused("impossible shape");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [99999999999999999999], \"data_offsets\": [0, 4]}}", 4);
        assertRefused("impossible shape");
        safetensors("{\"a\": {\"dtype\": \"F32\", \"shape\": [1, 2, 3, 4, 1], \"data_offsets\": [0, 96]}}", 96);
        assertRefused("tensors of one to four dimensions are supported");
        safetensors(
                "{\"a\": {\"dtype\": \"F32\", \"shape\": [2147483647, 2147483647, 2147483647, 1],"
                        + " \"data_offsets\": [0, 4]}}",
                4);
        assertRefused("impossible shape");
        config(CONFIG.replace("\"hidden_size\": 8", "\"hidden_size\": 4294967304"));
        assertRefused("hidden_size is 4294967304; it must be at most 2147483647");
        config(CONFIG.replace("\"vocab_size\": 10", "\"vocab_size\": 2000000000"));
        assertRefused("vocab_size is 2000000000 in the model's configuration; it must lie between 1 and 16777216");
        config(CONFIG.replace("}", ", \"eos_token_id\": \"two\"}"));
        assertRefused("eos_token_id is \"two\"");
        config(CONFIG.replace("}", ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 0}}"));
        assertRefused("rope scaling has factor 0.0");
    }

    @Test
    void refusesDuplicateTensors() throws IOException {
        config(CONFIG);
        String tensor = "\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}";
        safetensors("{" + tensor + ", " + tensor + "}", 4);
        assertRefused("Duplicate Object property \"a\"");
        safetensors("{" + tensor + "}", 4);
        Files.copy(folder.resolve("model.safetensors"), folder.resolve("other.safetensors"));
        Files.writeString(
                folder.resolve("model.safetensors.index.json"),
                "{\"weight_map\": {\"a\": \"model.safetensors\", \"b\": \"other.safetensors\"}}");
        assertRefused("holds tensor a, which another file of");
    }

    @Test
    void shardsMustBeInTheDirectoryOfTheirIndex() throws IOException {
        config(CONFIG);
        for (String shard : new String[] {"\"../model.safetensors\"", "\"/model.safetensors\"", "\"passwords\"", "7"}) {
            Files.writeString(
                    folder.resolve("model.safetensors.index.json"), "{\"weight_map\": {\"a\": " + shard + "}}");
            assertRefused("it must be the name of a .safetensors file in the same directory");
        }
    }

    /** A JSON tree of this header would take 40 times its size. */
    @Test
    void aHostileHeaderTakesLittleMemory() throws IOException {
        config(CONFIG);
        safetensors("{\"__metadata__\": [" + "{},".repeat(8 << 20) + "{}]}", 0);
        assertRefused("has no tensor model.embed_tokens.weight among its 0");
        safetensors("{\"__metadata__\": [" + "{},".repeat(12 << 20) + "{}]}", 0);
        assertRefused("is not a safetensors file, or truncated");
    }

    private static ByteBuffer gguf(int tensors, int entries) {
        return ByteBuffer.allocate(4096)
                .order(ByteOrder.LITTLE_ENDIAN)
                .putInt(0x46554747)
                .putInt(3)
                .putLong(tensors)
                .putLong(entries);
    }

    private static ByteBuffer key(ByteBuffer file, String name, int type) {
        return file.putLong(name.length())
                .put(name.getBytes(StandardCharsets.UTF_8))
                .putInt(type);
    }

    private static ByteBuffer tensor(ByteBuffer file, String name, long columns, long rows, long offset) {
        return file.putLong(name.length())
                .put(name.getBytes(StandardCharsets.UTF_8))
                .putInt(2)
                .putLong(columns)
                .putLong(rows)
                .putInt(0)
                .putLong(offset);
    }

    private void assertGgufRefused(ByteBuffer bytes, String message) throws IOException {
        Path file = folder.resolve("m.gguf");
        Files.write(file, bytes.array());
        assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0).close())
                .isInstanceOf(ModelException.class)
                .hasMessageContaining(message);
    }

    @Test
    void refusesGgufWithImpossibleSizes() throws IOException {
        assertGgufRefused(tensor(gguf(1, 0), "t", Integer.MAX_VALUE, Integer.MAX_VALUE, 0), "impossible shape");
        assertGgufRefused(tensor(gguf(1, 0), "t", 4, 1, 4), "not a multiple of the alignment, 32");
        assertGgufRefused(tensor(tensor(gguf(2, 0), "t", 4, 1, 0), "t", 4, 1, 0), "has the tensor t twice");
        assertGgufRefused(key(key(gguf(0, 2), "k", 7).put((byte) 1), "k", 7), "has the metadata entry k twice");
        assertGgufRefused(key(gguf(0, 1), "general.alignment", 10).putLong(1L << 62), "power of two, at most 2097152");
        assertGgufRefused(
                key(gguf(0, 1), "general.architecture", 4).putInt(1),
                "general.architecture is of type Long; it must be of type String");
    }

    /** Counts and lengths are checked before allocation, also in a file that is large enough for them. */
    @Test
    void aLargeGgufFileCannotClaimLargeArrays() throws IOException {
        Path file = folder.resolve("m.gguf");
        for (String claim : new String[] {"array", "string"}) {
            ByteBuffer head = gguf(0, 1);
            if (claim.equals("array")) {
                key(head, "k", 9).putInt(0).putLong(3_000_000_000L);
            } else {
                key(head, "k", 8).putLong(2_000_000_000L);
            }
            try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
                sparse.setLength(0);
                sparse.write(head.array());
                sparse.setLength(4L << 30);
            }
            assertThatThrownBy(() -> Checkpoint.open(file, LoadFormat.AUTO, 0).close())
                    .as(claim)
                    .isInstanceOf(ModelException.class)
                    .hasMessageContaining("the limit is");
        }
    }

    /** Random bytes cause a ModelException: no crash, no endless loop and no huge allocation. */
    @Test
    void survivesRandomGgufHeaders() throws IOException {
        long seed = 99;
        SplittableRandom random = new SplittableRandom(seed);
        Path file = folder.resolve("random.gguf");
        for (int round = 0; round < 500; round++) {
            byte[] bytes = new byte[24 + random.nextInt(200)];
            random.nextBytes(bytes);
            ByteBuffer.wrap(bytes)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .putInt(0x46554747)
                    .putInt(3)
                    .putLong(random.nextInt(3))
                    .putLong(random.nextInt(4));
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
