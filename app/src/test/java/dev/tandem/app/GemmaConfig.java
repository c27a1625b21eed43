package dev.tandem.app;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** A configuration with the sizes of Gemma 3 1B: five of six layers have a window of 512 tokens. */
final class GemmaConfig {
    private GemmaConfig() {}

    /** Writes {@code config.json} of a model that also takes images, so that its text part is read. */
    static void write(Path folder, int layers) throws IOException {
        Files.writeString(folder.resolve("config.json"), """
                {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 1152,
                 "num_hidden_layers": %d, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
                 "intermediate_size": 6912, "vocab_size": 262144, "sliding_window": 512, "sliding_window_pattern": 6,
                 "max_position_embeddings": 32768}}
                """.formatted(layers));
    }
}
