package dev.tandem.app;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import tools.jackson.databind.ObjectMapper;

/** A model directory for {@code --load-format dummy}: one small layer, and a tokenizer whose every token is a word. */
public final class DummyModel {
    static final int CONTEXT = 512;
    private static final int VOCABULARY = 320;

    private DummyModel() {}

    /** Writes it into the folder and returns the folder. */
    public static Path write(Path folder) {
        ObjectMapper json = new ObjectMapper();
        Map<String, Object> config = new LinkedHashMap<>();
        config.put("architectures", new String[] {"LlamaForCausalLM"});
        config.put("model_type", "llama");
        config.put("torch_dtype", "float32");
        config.put("hidden_size", 64);
        config.put("intermediate_size", 128);
        config.put("num_hidden_layers", 1);
        config.put("num_attention_heads", 4);
        config.put("num_key_value_heads", 2);
        config.put("max_position_embeddings", CONTEXT);
        config.put("rms_norm_eps", 1e-5);
        config.put("rope_theta", 10_000.0);
        config.put("vocab_size", VOCABULARY);
        config.put("tie_word_embeddings", false);
        config.put("bos_token_id", 1);
        config.put("eos_token_id", 2);
        Map<String, Integer> vocabulary = new LinkedHashMap<>();
        for (int i = 0; i < VOCABULARY; i++) {
            vocabulary.put("w" + i, i);
        }
        Map<String, Object> tokenizer = new LinkedHashMap<>();
        tokenizer.put("version", "1.0");
        tokenizer.put("added_tokens", new Object[0]);
        tokenizer.put("pre_tokenizer", Map.of("type", "WhitespaceSplit"));
        tokenizer.put("model", Map.of("type", "WordLevel", "vocab", vocabulary, "unk_token", "w0"));
        Map<String, Object> template = Map.of(
                "bos_token",
                "w1",
                "eos_token",
                "w2",
                "chat_template",
                "{% for m in messages %}{{ m['content'] }} {% endfor %}");
        try {
            Files.createDirectories(folder);
            Files.write(folder.resolve("config.json"), json.writeValueAsBytes(config));
            Files.write(folder.resolve("tokenizer.json"), json.writeValueAsBytes(tokenizer));
            Files.write(folder.resolve("tokenizer_config.json"), json.writeValueAsBytes(template));
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
