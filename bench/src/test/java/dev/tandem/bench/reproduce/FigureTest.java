package dev.tandem.bench.reproduce;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.strategy.Fidelity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.FieldSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The spec files of the figures, and the errors of their reader. */
class FigureTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Path VERDICTS = Path.of("../docs/results/verdicts.jsonl");

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
                        + " in rising order",
                "'\"holds\": [0.51, 0.69]' | '\"holds\": [1, 2], \"reasons\": [{\"fidelities\": [\"printed\"]}]'"
                        + " | a text as measured or as assumed, and not both",
                "'\"holds\": [0.51, 0.69]' | '\"holds\": [1, 2], \"reasons\": [{\"fidelities\": [\"printed\"],"
                        + " \"assumed\": \"a\"}, {\"fidelities\": [\"printed\"], \"measured\": \"b\"}]'"
                        + " | it must be one reason per fidelity"
            })
    void anErrorNamesTheFileTheFieldTheValueAndTheRemedy(String from, String to, String message) {
        String spec = Figure.resource("neo-fig6c.json").replace(from, to);

        assertThatThrownBy(() -> FigureReader.read(spec, "neo-fig6c.json"))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("neo-fig6c.json: ")
                .hasMessageContaining(message);
    }

    /** A verdict that is not fully reproduced says why, and no reason outlives its verdict. */
    @ParameterizedTest
    @FieldSource("dev.tandem.bench.reproduce.Figure#ALL")
    void recordedVerdictsHaveReasonsWhereTheyAreNotReproduced(Figure.Id id) throws IOException {
        Map<String, Claim> claims = Figure.of(id.paper(), id.figure()).claims().stream()
                .collect(Collectors.toMap(Claim::words, Function.identity()));
        List<JsonNode> verdicts = Files.readAllLines(VERDICTS).stream()
                .map(JSON::readTree)
                .filter(line -> new Figure.Id(text(line, "paper"), text(line, "figure")).equals(id))
                .filter(line -> !text(line, "fidelity").equals(Fidelity.TANDEM.flag()))
                .toList();

        assertThat(verdicts)
                .extracting(line -> text(line, "claim"))
                .containsOnly(claims.keySet().toArray(String[]::new));
        for (JsonNode line : verdicts) {
            Optional<Reason> reason = claims.get(text(line, "claim")).reason(Fidelity.of(text(line, "fidelity")));
            assertThat(reason.isEmpty())
                    .as("%s, %s: %s", text(line, "fidelity"), text(line, "claim"), reason)
                    .isEqualTo(text(line, "verdict").equals(Verdict.Outcome.REPRODUCED.words()));
        }
    }

    private static String text(JsonNode line, String field) {
        return line.path(field).stringValue();
    }

    @Test
    void anUnknownFigureListsThoseOfThePaper() {
        assertThatThrownBy(() -> Figure.of("neo", "fig5")).hasMessageContaining("use fig6a, fig6b, fig6c");
        assertThatThrownBy(() -> Figure.of("orca", "fig5")).hasMessageContaining("use neo or apex");
    }
}
