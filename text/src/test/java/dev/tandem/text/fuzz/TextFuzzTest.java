package dev.tandem.text.fuzz;

import dev.tandem.testkit.FuzzReplay;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** The fuzz targets on their corpora and a few mutations; {@code ./tandem fuzz} runs them for longer. */
class TextFuzzTest {
    private static final Path CORPORA = Path.of("src/test/resources/fuzz");

    @Test
    void jinja() {
        FuzzReplay.run(CORPORA.resolve("JinjaFuzz"), 20_000, 1, JinjaFuzz::fuzzerTestOneInput);
    }
}
