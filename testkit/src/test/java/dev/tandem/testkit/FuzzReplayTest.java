package dev.tandem.testkit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FuzzReplayTest {
    @TempDir
    Path corpus;

    @Test
    void runsTheCorpusThenTheSameMutationsForASeed() throws Exception {
        Files.write(corpus.resolve("a"), new byte[] {1, 2, 3, 4});
        Files.write(corpus.resolve("b"), new byte[0]);
        List<String> first = new ArrayList<>();
        List<String> second = new ArrayList<>();
        FuzzReplay.run(corpus, 100, 7, input -> first.add(Arrays.toString(input)));
        FuzzReplay.run(corpus, 100, 7, input -> second.add(Arrays.toString(input)));
        assertThat(first).hasSize(102).isEqualTo(second).startsWith("[1, 2, 3, 4]", "[]");
        assertThat(first.stream().distinct().count()).isGreaterThan(50);
    }

    @Test
    void aFaultIsReportedWithSeedAndInput() throws Exception {
        Files.write(corpus.resolve("a"), new byte[] {1, 2, 3});
        assertThatThrownBy(() -> FuzzReplay.run(corpus, 1000, 7, input -> {
                    if (input.length > 3) {
                        throw new IllegalStateException("fault");
                    }
                }))
                .isInstanceOf(AssertionError.class)
                .hasMessageContaining("seed 7, round ")
                .hasMessageContaining("Base64")
                .hasRootCauseMessage("fault");
    }
}
