package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Progress with rate and time left. */
class TerminalTest {
    private static final long MIB = 1 << 20;

    private final AtomicLong nanos = new AtomicLong();
    private final ByteArrayOutputStream said = new ByteArrayOutputStream();
    private final Terminal terminal =
            new Terminal(new PrintStream(said, true, StandardCharsets.UTF_8), false, nanos::get);

    @Test
    void theRateLeavesOutWhatWasThereBefore() {
        terminal.at("model", 400 * MIB, 1000 * MIB);
        nanos.set(2_000_000_000L);
        terminal.at("model", 500 * MIB, 1000 * MIB);
        nanos.set(12_000_000_000L);
        terminal.at("model", 1000 * MIB, 1000 * MIB);
        assertThat(said.toString(StandardCharsets.UTF_8).lines())
                .containsExactly(
                        "model 400 / 1,000 MiB",
                        "model 500 / 1,000 MiB, 50.0 MiB/s, 0:10 left",
                        "model 1,000 / 1,000 MiB, 50.0 MiB/s");
    }

    @Test
    void itemsHaveNoRate() {
        terminal.count("steps", 1, 2);
        assertThat(said.toString(StandardCharsets.UTF_8)).isEqualTo("steps 1 / 2" + System.lineSeparator());
    }
}
