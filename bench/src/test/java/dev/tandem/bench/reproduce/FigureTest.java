package dev.tandem.bench.reproduce;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.engine.config.ConfigurationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;

/** The spec files of the figures, and the errors of their reader. */
class FigureTest {
    @ParameterizedTest
    @FieldSource("dev.tandem.bench.reproduce.Figure#ALL")
    void everyFigureIsReadAndNamesMachinesAndModelsThatExist(Figure.Id id) {
        Figure figure = Figure.of(id.paper(), id.figure());

        assertThat(figure.id()).isEqualTo(id);
        assertThat(figure.claims()).isNotEmpty();
        for (Panel panel : figure.panels()) {
            assertThat(Hardware.NAMES).contains(panel.setting().hardware());
            assertThat(Figure.resource("models/" + panel.setting().model() + ".json"))
                    .contains("hidden_size");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "load-latency | slow | experiment is 'slow'; it must be one of load-latency",
                "'\"latency\": 1}' | '\"latency\": 0}' | latency is 0.0; it must be above 0",
                "'\"of\": \"neo\"' | '\"of\": \"neoo\"' | check.of is 't4/neoo'; it must be one of t4/vllm, t4/neo",
                "'\"gpu_blocks\": 54' | '\"gpu_blocks\": 0' | gpu_blocks is 0; it must be an integer above 0",
                "'\"holds\": [0.51, 0.69]' | '\"holds\": [2, 1]' | holds is [2,1]; it must be two numbers"
                        + " in rising order"
            })
    void anErrorNamesTheFileTheFieldTheValueAndTheRemedy(String from, String to, String message) {
        String spec = Figure.resource("neo-fig6c.json").replace(from, to);

        assertThatThrownBy(() -> FigureReader.read(spec, "neo-fig6c.json"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("neo-fig6c.json: ")
                .hasMessageContaining(message);
    }

    @Test
    void anUnknownFigureListsThoseOfThePaper() {
        assertThatThrownBy(() -> Figure.of("neo", "fig5")).hasMessageContaining("use fig6a, fig6b, fig6c");
        assertThatThrownBy(() -> Figure.of("orca", "fig5")).hasMessageContaining("use neo or apex");
    }
}
