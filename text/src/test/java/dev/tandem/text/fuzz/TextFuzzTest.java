package dev.tandem.text.fuzz;

import dev.tandem.testkit.FuzzReplay;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Runs the fuzz targets on their corpora and a few mutations; {@code ./tandem fuzz} runs them longer. */
class TextFuzzTest {
    private static final Path CORPORA = Path.of("src/test/resources/fuzz");

    @Test
    void jinja() {
        FuzzReplay.run(CORPORA.resolve("JinjaFuzz"), 5_000, 1, JinjaFuzz::fuzzerTestOneInput);
    }

    @Test
    void tokenizer() {
        FuzzReplay.run(CORPORA.resolve("TokenizerFuzz"), 0, 1, input -> {
            try {
                TokenizerFuzz.fuzzerTestOneInput(input);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }
}
