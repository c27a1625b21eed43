package dev.tandem.model.fuzz;

import dev.tandem.testkit.FuzzReplay;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Runs the fuzz targets on their corpora and a few mutations; {@code ./tandem fuzz} runs them longer. */
class ModelFuzzTest {
    private static final Path CORPORA = Path.of("src/test/resources/fuzz");

    private interface Target {
        void run(byte[] input) throws IOException;
    }

    private static Consumer<byte[]> unchecked(Target target) {
        return input -> {
            try {
                target.run(input);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
    }

    @Test
    void safetensors() {
        FuzzReplay.run(CORPORA.resolve("SafetensorsFuzz"), 1_000, 1, unchecked(SafetensorsFuzz::fuzzerTestOneInput));
    }

    @Test
    void gguf() {
        FuzzReplay.run(CORPORA.resolve("GgufFuzz"), 1_000, 1, unchecked(GgufFuzz::fuzzerTestOneInput));
    }
}
