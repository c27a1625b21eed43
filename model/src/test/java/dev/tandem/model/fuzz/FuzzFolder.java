package dev.tandem.model.fuzz;

import dev.tandem.model.ModelException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Creates a folder for the file under test, in the build's output. */
final class FuzzFolder {
    private FuzzFolder() {}

    static Path create() {
        try {
            return Files.createTempDirectory(Files.createDirectories(Path.of("target/fuzz-files")), "input");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void requireMessage(ModelException e) {
        if (e.getMessage() == null || e.getMessage().isBlank()) {
            throw new AssertionError("an error without a message", e);
        }
    }
}
