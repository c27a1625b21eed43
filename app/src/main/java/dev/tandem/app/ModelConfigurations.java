package dev.tandem.app;

import dev.tandem.fetch.CacheFile;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;

/** Configurations of models that come with Tandem, without weights. */
final class ModelConfigurations {
    /** Names of the models, as {@code --model} takes them. */
    static final List<String> NAMES = List.of("Llama-3.1-8B", "Llama-2-7B", "Qwen3-14B", "Qwen3-32B");

    private ModelConfigurations() {}

    /** The {@code config.json} of one of {@link #NAMES}. */
    static String json(String model) {
        try (InputStream resource = ModelConfigurations.class.getResourceAsStream("models/" + model + ".json")) {
            return new String(resource.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Makes a model directory with only a configuration; other processes may make or read the same directory. */
    static Path directory(String model, Path cache) {
        try {
            Path folder = cache.resolve("configurations").resolve(model);
            CacheFile.write(folder.resolve("config.json"), json(model).getBytes(StandardCharsets.UTF_8));
            return folder;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
