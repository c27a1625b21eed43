package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.engine.config.ConfigurationException;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class LoadOptionsTest {
    /** The highest rate at which the server meets the requirement. */
    private static final double LIMIT = 3;

    private final LoadOptions options = new LoadOptions();
    private final ByteArrayOutputStream progress = new ByteArrayOutputStream();
    /** Rates in the order of their runs. */
    private final List<Double> runs = new ArrayList<>();
    /** Whether each run is valid; all later ones are. */
    private final ArrayDeque<Boolean> validity = new ArrayDeque<>();

    /** An invalid run reports that no request met its targets. */
    private Map<String, Object> measure(Load load) {
        double rate = load.arrivals().requestsPerSecond().orElseThrow();
        runs.add(rate);
        boolean valid = validity.isEmpty() || validity.removeFirst();
        return new LinkedHashMap<>(Map.of(
                "completed",
                1,
                "arrived",
                1,
                "goodput_fraction",
                valid && rate <= LIMIT ? 1.0 : 0.0,
                "request_rate",
                rate,
                "valid",
                valid));
    }

    private LoadOptions.Measured search() {
        options.rates = List.of("1");
        options.findRate = Optional.of("goodput>=0.9");
        LoadWindow window = options.window(Optional.of(10), 0);
        return options.run(window, 1, new PrintStream(progress, true, StandardCharsets.UTF_8), this::measure);
    }

    @Test
    void anInvalidRunOfASearchIsRepeated() {
        validity.addAll(List.of(true, false, true));
        LoadOptions.Measured measured = search();
        assertThat(runs.subList(0, 3)).containsExactly(1.0, 2.0, 2.0);
        assertThat((double) measured.results().getFirst().get("request_rate")).isBetween(LIMIT / 1.02, LIMIT);
        assertThat(progress.toString(StandardCharsets.UTF_8)).contains("2.0 requests/s: the run is invalid");
    }

    @Test
    void aSearchEndsWhereTheClientIsTheBottleneckTwice() {
        validity.addAll(List.of(true, false, false));
        assertThatThrownBy(this::search)
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("both runs at 2.0 requests/s")
                .hasMessageContaining("--request-rate");
    }
}
