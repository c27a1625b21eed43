package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The library in a file that a build makes while the process runs. */
class LlguidanceFinderTest {
    @TempDir
    Path folder;

    private final AtomicBoolean building = new AtomicBoolean(true);

    private LlguidanceFinder finder(Path file) {
        return new LlguidanceFinder(Optional.of(file), building::get);
    }

    @Test
    void aFileThatComesLaterIsFoundAndKept() throws IOException {
        Path file = folder.resolve("library.so");
        LlguidanceFinder finder = finder(file);
        assertThat(finder.find()).isEqualTo(new LlguidanceFinder.BeingBuilt());
        copyOfTheBuild(file);
        LlguidanceFinder.Result found = finder.find();
        assertThat(found).isInstanceOf(LlguidanceFinder.Found.class);
        Files.delete(file);
        assertThat(finder.find()).isSameAs(found);
    }

    /** So that it loads wherever the JVM runs: the C library, its loader, and the compiler's unwinder. */
    @Test
    void theLibraryNeedsNoOtherLibraries() throws IOException, InterruptedException {
        Path file = folder.resolve("library.so");
        copyOfTheBuild(file);
        Process readelf;
        try {
            readelf = new ProcessBuilder("readelf", "-d", file.toString()).start();
        } catch (IOException e) {
            assumeTrue(false, "there is no readelf: " + e.getMessage());
            return;
        }
        String dynamic = new String(readelf.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(readelf.waitFor()).isZero();
        List<String> needed = Pattern.compile("\\(NEEDED\\).*\\[(.*)]")
                .matcher(dynamic)
                .results()
                .map(match -> match.group(1))
                .toList();
        assertThat(needed)
                .contains("libc.so.6")
                .allMatch(name -> name.matches("libc\\.so\\.6|libgcc_s\\.so\\.1|ld-linux.*"));
    }

    private static void copyOfTheBuild(Path file) throws IOException {
        try (InputStream library = LlguidanceFinder.class.getResourceAsStream("/native/libtandem-grammar.so")) {
            assumeTrue(library != null, "the build has no llguidance");
            Files.copy(library, file);
        }
    }

    /** The builder may have written it between the two questions. */
    @Test
    void aFileOfABuilderThatHasJustEndedIsNotMissed() throws IOException {
        Path file = folder.resolve("library.so");
        LlguidanceFinder finder = new LlguidanceFinder(Optional.of(file), () -> {
            try {
                Files.writeString(file, "no library");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return false;
        });
        assertThat(finder.find())
                .isInstanceOfSatisfying(
                        LlguidanceFinder.Missing.class,
                        missing -> assertThat(missing.reason()).contains("cannot be loaded"));
    }

    @Test
    void aBuilderThatEndsWithoutAFileLeavesNone() {
        Path file = folder.resolve("library.so");
        LlguidanceFinder finder = finder(file);
        assertThat(finder.find()).isEqualTo(new LlguidanceFinder.BeingBuilt());
        building.set(false);
        assertThat(finder.find()).isEqualTo(new LlguidanceFinder.Missing("there is no " + file));
    }
}
