package dev.tandem.cuda.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Results are saved per GPU: the same GPU does not measure again, and another GPU does. */
class AutotuneCacheTest {
    private static final String GPU = "a GPU, 16 multiprocessors";

    @TempDir
    Path folder;

    private Path cache;

    @BeforeEach
    void chooseACacheFolderThatDoesNotExist() {
        cache = folder.resolve("missing/folder");
    }

    private AutotuneCache keep() {
        AutotuneCache choices = AutotuneCache.open(cache, GPU);
        assertThat(choices.of("gemm/24", () -> "WGMMA")).isEqualTo("WGMMA");
        assertThat(choices.of("gate-up/512", () -> "0.1 0.2")).isEqualTo("0.1 0.2");
        choices.keep();
        assertThat(choices.origin()).isEqualTo("measured, kept in " + file());
        return choices;
    }

    private Path file() {
        try (Stream<Path> files = Files.list(cache)) {
            return files.reduce((a, b) -> {
                        throw new AssertionError("more than one file: " + a + ", " + b);
                    })
                    .orElseThrow();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static String failIfMeasuredAgain() {
        throw new AssertionError("measured again");
    }

    @Test
    void theNextStartFindsSavedResults() {
        keep();
        AutotuneCache next = AutotuneCache.open(cache, GPU);
        assertThat(next.of("gemm/24", AutotuneCacheTest::failIfMeasuredAgain)).isEqualTo("WGMMA");
        assertThat(next.of("gate-up/512", AutotuneCacheTest::failIfMeasuredAgain))
                .isEqualTo("0.1 0.2");
        assertThat(next.origin()).isEqualTo("as kept in " + file());
        assertThat(next.find("gemm/32")).isEmpty();
    }

    @Test
    void laterResultsAreAddedToTheFile() {
        keep();
        AutotuneCache next = AutotuneCache.open(cache, GPU);
        next.of("gemm/32", () -> "GEMV_TMA");
        next.keep();
        AutotuneCache third = AutotuneCache.open(cache, GPU);
        assertThat(third.find("gemm/24")).contains("WGMMA");
        assertThat(third.find("gemm/32")).contains("GEMV_TMA");
    }

    @Test
    void anotherGpuHasItsOwnResults() {
        keep();
        AutotuneCache other = AutotuneCache.open(cache, "a GPU, 132 multiprocessors");
        assertThat(other.find("gemm/24")).isEmpty();
    }

    @Test
    void aFileOfAnotherGpuIsIgnored() throws IOException {
        keep();
        Path file = file();
        AutotuneCache other = AutotuneCache.open(folder.resolve("other"), "another");
        other.put("gemm/24", "LIBRARY");
        other.keep();
        try (Stream<Path> files = Files.list(folder.resolve("other"))) {
            Files.write(file, Files.readAllBytes(files.findFirst().orElseThrow()));
        }
        assertThat(AutotuneCache.open(cache, GPU).find("gemm/24")).isEmpty();
    }

    @Test
    void aDamagedFileIsIgnoredAndReplaced() throws IOException {
        keep();
        String whole = Files.readString(file());
        for (String damaged : new String[] {
            whole.replace("WGMMA", "BRUAD"),
            whole.substring(0, whole.length() / 2),
            "",
            "\n",
            whole.replace("gate-up/512 0.1 0.2\n", ""),
        }) {
            Files.writeString(file(), damaged);
            AutotuneCache choices = AutotuneCache.open(cache, GPU);
            assertThat(choices.find("gemm/24")).as(damaged).isEmpty();
            assertThat(choices.of("gemm/24", () -> "GEMV_TMA")).isEqualTo("GEMV_TMA");
            choices.keep();
            assertThat(AutotuneCache.open(cache, GPU).find("gemm/24")).contains("GEMV_TMA");
        }
    }

    @Test
    void aFolderThatCannotBeWrittenIsReported() throws IOException {
        Files.createDirectories(cache.getParent());
        Files.writeString(cache, "a file where the folder should be");
        AutotuneCache choices = AutotuneCache.open(cache, GPU);
        choices.put("gemm/24", "WGMMA");
        choices.keep();
        assertThat(choices.find("gemm/24")).contains("WGMMA");
        assertThat(choices.origin())
                .startsWith("measured; ")
                .contains("cannot be written")
                .endsWith("so the next start measures again");
    }

    @Test
    void keysAndValuesThatBreakTheLineFormatAreRejected() {
        AutotuneCache choices = AutotuneCache.open(cache, GPU);
        assertThatThrownBy(() -> choices.put("two words", "x")).hasMessageContaining("two words");
        assertThatThrownBy(() -> choices.put("one", "x\ny")).hasMessageContaining("not a line");
    }
}
