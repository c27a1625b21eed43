package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.kernels.KeptChoices;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What was measured once is not measured again on the same machine, and anywhere else is. */
class KeptChoicesTest {
    private static final String GPU = "a GPU, 16 multiprocessors";

    @TempDir
    Path folder;

    private Path cache;

    @BeforeEach
    void nothingYet() {
        cache = folder.resolve("not/yet/there");
    }

    private KeptChoices keep() {
        KeptChoices choices = KeptChoices.open(cache, GPU);
        assertThat(choices.of("products/24", () -> "BROAD")).isEqualTo("BROAD");
        assertThat(choices.of("gate-up/512", () -> "0.1 0.2")).isEqualTo("0.1 0.2");
        choices.keep();
        assertThat(choices.origin()).isEqualTo("measured, kept in " + file());
        return choices;
    }

    private Path file() {
        try (Stream<Path> files = Files.list(cache)) {
            return files.reduce((a, b) -> {
                throw new AssertionError("more than one file: " + a + ", " + b);
            }).orElseThrow();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static String neverAgain() {
        throw new AssertionError("measured again");
    }

    @Test
    void theNextStartFindsThem() {
        keep();
        KeptChoices next = KeptChoices.open(cache, GPU);
        assertThat(next.of("products/24", KeptChoicesTest::neverAgain)).isEqualTo("BROAD");
        assertThat(next.of("gate-up/512", KeptChoicesTest::neverAgain)).isEqualTo("0.1 0.2");
        assertThat(next.origin()).isEqualTo("as kept in " + file());
        assertThat(next.find("products/32")).isEmpty();
    }

    @Test
    void whatComesLaterIsAdded() {
        keep();
        KeptChoices next = KeptChoices.open(cache, GPU);
        next.of("products/32", () -> "STREAM");
        next.keep();
        KeptChoices third = KeptChoices.open(cache, GPU);
        assertThat(third.find("products/24")).contains("BROAD");
        assertThat(third.find("products/32")).contains("STREAM");
    }

    @Test
    void anythingElseMeasuresForItself() {
        keep();
        KeptChoices other = KeptChoices.open(cache, "a GPU, 132 multiprocessors");
        assertThat(other.find("products/24")).isEmpty();
    }

    @Test
    void aFileOfSomethingElseCountsAsAbsent() throws IOException {
        keep();
        Path file = file();
        KeptChoices other = KeptChoices.open(folder.resolve("other"), "another");
        other.put("products/24", "LIBRARY");
        other.keep();
        try (Stream<Path> files = Files.list(folder.resolve("other"))) {
            Files.write(file, Files.readAllBytes(files.findFirst().orElseThrow()));
        }
        assertThat(KeptChoices.open(cache, GPU).find("products/24")).isEmpty();
    }

    @Test
    void damageIsHealed() throws IOException {
        keep();
        String whole = Files.readString(file());
        for (String damaged : new String[] {
            whole.replace("BROAD", "BRUAD"), whole.substring(0, whole.length() / 2), "", "\n", whole.replace("gate-up/512 0.1 0.2\n", ""),
        }) {
            Files.writeString(file(), damaged);
            KeptChoices choices = KeptChoices.open(cache, GPU);
            assertThat(choices.find("products/24")).as(damaged).isEmpty();
            assertThat(choices.of("products/24", () -> "STREAM")).isEqualTo("STREAM");
            choices.keep();
            assertThat(KeptChoices.open(cache, GPU).find("products/24")).contains("STREAM");
        }
    }

    @Test
    void whereNothingCanBeWrittenItIsSaid() throws IOException {
        Files.createDirectories(cache.getParent());
        Files.writeString(cache, "a file where the folder should be");
        KeptChoices choices = KeptChoices.open(cache, GPU);
        choices.put("products/24", "BROAD");
        choices.keep();
        assertThat(choices.find("products/24")).contains("BROAD");
        assertThat(choices.origin()).startsWith("measured; ").contains("cannot be written").endsWith("so the next start measures again");
    }

    @Test
    void whatIsNotALineIsRefused() {
        KeptChoices choices = KeptChoices.open(cache, GPU);
        assertThatThrownBy(() -> choices.put("two words", "x")).hasMessageContaining("two words");
        assertThatThrownBy(() -> choices.put("one", "x\ny")).hasMessageContaining("not a line");
    }
}
