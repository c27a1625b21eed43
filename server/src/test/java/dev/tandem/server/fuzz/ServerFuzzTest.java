package dev.tandem.server.fuzz;

import dev.tandem.testkit.FuzzReplay;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/** Runs the fuzz targets on their corpora and a few mutations; {@code ./tandem fuzz} runs them longer. */
class ServerFuzzTest {
    private static final Path CORPORA = Path.of("src/test/resources/fuzz");

    @Test
    void request() {
        FuzzReplay.run(CORPORA.resolve("RequestFuzz"), 5_000, 1, RequestFuzz::fuzzerTestOneInput);
    }

    @Test
    void http() {
        FuzzReplay.run(CORPORA.resolve("HttpFuzz"), 5_000, 1, HttpFuzz::fuzzerTestOneInput);
    }

    @Test
    void sse() {
        FuzzReplay.run(CORPORA.resolve("SseFuzz"), 2_000, 1, SseFuzz::fuzzerTestOneInput);
    }
}
