package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.fetch.Progress;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What a start tells those who watch it. */
class StartLogTest {
    @Test
    void aWatcherReceivesAllProgressAndNoNameOfAModel() {
        List<String> seen = new ArrayList<>();
        Progress watcher = (what, done, total) -> seen.add(what + " " + done + "/" + total);
        PrintStream out = new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8);
        StartLog log = new StartLog(out, false, watcher);
        log.downloads().at("secret/model", 1, 4);
        log.bytes().at("loading weights", 2, 4);
        log.items().at("compiling kernels", 3, 4);
        assertThat(seen).containsExactly("downloading the model 1/4", "loading weights 2/4", "compiling kernels 3/4");
    }
}
