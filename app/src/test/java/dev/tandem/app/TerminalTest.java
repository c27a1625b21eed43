package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Progress with rate and time left. */
class TerminalTest {
    private static final long MIB = 1 << 20;
    private static final long SECOND = 1_000_000_000L;

    private final AtomicLong nanos = new AtomicLong();
    private final ByteArrayOutputStream said = new ByteArrayOutputStream();

    private Terminal terminal(boolean interactive) {
        return new Terminal(new PrintStream(said, true, StandardCharsets.UTF_8), interactive, nanos::get);
    }

    private List<String> said() {
        return said.toString(StandardCharsets.UTF_8)
                .lines()
                .flatMap(line -> List.of(line.split("\r")).stream())
                .filter(line -> !line.isEmpty())
                .map(String::stripTrailing)
                .toList();
    }

    @Test
    void theRateLeavesOutWhatWasThereBefore() {
        Terminal terminal = terminal(false);
        terminal.at("model", 400 * MIB, 1000 * MIB);
        nanos.set(10 * SECOND);
        terminal.at("model", 500 * MIB, 1000 * MIB);
        nanos.set(12 * SECOND);
        terminal.at("model", 600 * MIB, 1000 * MIB);
        nanos.set(60 * SECOND);
        terminal.at("model", 1000 * MIB, 1000 * MIB);
        assertThat(said())
                .containsExactly("model 500 / 1,000 MiB, 10.0 MiB/s, 0:50 left", "model 1,000 / 1,000 MiB, 10.0 MiB/s");
    }

    @Test
    void itemsHaveNoRate() {
        Terminal terminal = terminal(false);
        terminal.count("steps", 0, 3);
        nanos.set(10 * SECOND);
        terminal.count("steps", 1, 3);
        assertThat(said()).containsExactly("steps 1 / 3, 0:20 left");
    }

    @Test
    void workOfLessThanASecondIsNotShown() {
        Terminal terminal = terminal(true);
        terminal.at("model", 0, 100 * MIB);
        nanos.set(SECOND - 1);
        terminal.at("model", 50 * MIB, 100 * MIB);
        terminal.at("model", 100 * MIB, 100 * MIB);
        assertThat(said()).isEmpty();
    }

    @Test
    void aBarIsDrawnAtMostTenTimesASecondAndAtTheEnd() {
        Terminal terminal = terminal(true);
        terminal.at("model", 0, 100 * MIB);
        for (long at : new long[] {SECOND, SECOND + 1, SECOND + SECOND / 10}) {
            nanos.set(at);
            terminal.at("model", 50 * MIB, 100 * MIB);
        }
        terminal.at("model", 100 * MIB, 100 * MIB);
        assertThat(said()).hasSize(3);
        assertThat(said().getFirst())
                .isEqualTo("model [###############...............] 50 / 100 MiB, 50.0 MiB/s, 0:01 left");
        assertThat(said.toString(StandardCharsets.UTF_8)).endsWith("\n");
    }

    @Test
    void theSameWorkAgainBeginsAnew() {
        Terminal terminal = terminal(false);
        terminal.count("warming up", 0, 2);
        terminal.count("warming up", 2, 2);
        nanos.set(100 * SECOND);
        terminal.count("warming up", 0, 2);
        nanos.set(110 * SECOND);
        terminal.count("warming up", 1, 2);
        assertThat(said()).containsExactly("warming up 1 / 2, 0:10 left");
    }
}
