package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PresetTest {
    private static final int PER_ROUND = 8;
    private static final int TIMES = 200;

    @Test
    void thePresetsOfTheHelpExist() {
        assertThat(Stream.of(
                                "h200",
                                "h200-26k",
                                "h200-16sm-26k",
                                "h200-8sm-2req",
                                "h200-2req",
                                "imitated-l4",
                                "imitated-a10g")
                        .map(Preset::of))
                .containsExactly(Preset.values());
    }

    @Test
    void manyMayPrepareTheSamePresetAtATime(@TempDir Path cache) throws Exception {
        byte[] expected;
        try (InputStream resource = Preset.class.getResourceAsStream("models/Llama-2-7B.json")) {
            expected = resource.readAllBytes();
        }
        try (ExecutorService threads = Executors.newFixedThreadPool(PER_ROUND)) {
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < PER_ROUND; i++) {
                all.add(threads.submit(() -> prepare(cache, expected)));
            }
            for (Future<?> one : all) {
                one.get();
            }
        }
        try (Stream<Path> files = Files.list(cache.resolve("configurations/Llama-2-7B"))) {
            assertThat(files)
                    .as("nothing else is left")
                    .containsExactly(cache.resolve("configurations/Llama-2-7B/config.json"));
        }
    }

    private static Void prepare(Path cache, byte[] expected) throws IOException {
        for (int i = 0; i < TIMES; i++) {
            Path folder = ModelConfigurations.directory("Llama-2-7B", cache);
            assertThat(Files.readAllBytes(folder.resolve("config.json"))).isEqualTo(expected);
        }
        return null;
    }
}
