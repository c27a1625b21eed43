package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.strategy.select.Strategy;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** What {@code --strategy auto} stands for. */
class StrategyOptionsTest {
    private static final Optional<ByteSize> UNSAID = Optional.empty();

    private final StrategyOptions options = new StrategyOptions();
    private final ByteArrayOutputStream said = new ByteArrayOutputStream();
    private final StartLog log = new StartLog(new PrintStream(said, true, StandardCharsets.UTF_8), false);

    private Strategy settled(int cores, Optional<ByteSize> hostKv, Optional<String> obstacle) {
        options.settle(cores, hostKv, obstacle, log);
        return options.chosen();
    }

    @Test
    void autoIsGpuOnlyUntilItIsSettled() {
        assertThat(options.chosen()).isEqualTo(Strategy.GPU_ONLY);
    }

    @Test
    void autoIsAdaptiveWithEnoughCores() {
        assertThat(settled(4, UNSAID, Optional.empty())).isEqualTo(Strategy.ADAPTIVE);
        assertThat(said.toString(StandardCharsets.UTF_8)).isEmpty();
    }

    @Test
    void autoSaysWhyItDoesNotOffload() {
        assertThat(settled(3, UNSAID, Optional.empty())).isEqualTo(Strategy.GPU_ONLY);
        assertThat(settled(16, Optional.of(ByteSize.parse("0")), Optional.empty()))
                .isEqualTo(Strategy.GPU_ONLY);
        assertThat(settled(16, UNSAID, Optional.of("its heads are odd"))).isEqualTo(Strategy.GPU_ONLY);
        options.guard = Optional.of(false);
        assertThat(settled(16, UNSAID, Optional.empty())).isEqualTo(Strategy.GPU_ONLY);
        assertThat(said.toString(StandardCharsets.UTF_8).lines())
                .hasSize(4)
                .allMatch(line -> line.startsWith("note: The GPU works alone: ") && line.contains("--strategy"))
                .anyMatch(line -> line.contains("3 cores"))
                .anyMatch(line -> line.contains("--host-kv is 0"))
                .anyMatch(line -> line.contains("its heads are odd"))
                .anyMatch(line -> line.contains("--no-guard"));
    }

    @Test
    void anUnknownNameIsAnsweredWithTheKnownOnes() {
        options.strategy = "neoo";
        assertThatThrownBy(options::chosen)
                .hasMessageContaining("--strategy neoo is not known; known are gpu-only")
                .hasMessageEndingWith("adaptive and auto");
    }

    @Test
    void aNamedStrategyIsTaken() {
        options.strategy = "neo";
        assertThat(settled(1, UNSAID, Optional.of("its heads are odd"))).isEqualTo(Strategy.NEO);
        options.strategy = "gpu-only";
        assertThat(settled(64, UNSAID, Optional.empty())).isEqualTo(Strategy.GPU_ONLY);
        assertThat(said.toString(StandardCharsets.UTF_8)).isEmpty();
    }
}
