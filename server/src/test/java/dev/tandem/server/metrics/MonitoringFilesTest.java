package dev.tandem.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Checks that the dashboard and the alert rules name only series that a server can have. */
class MonitoringFilesTest {
    private static final Path DASHBOARD = Path.of("../deploy/grafana/tandem.json");
    private static final Path RULES = Path.of("../deploy/prometheus/tandem-alerts.yml");
    private static final Pattern SERIES = Pattern.compile("\\b(?:vllm|tandem):[a-z0-9_]+");

    @Test
    void theDashboardNamesKnownSeries() throws IOException {
        assertThat(unknown(Files.readString(DASHBOARD))).isEmpty();
    }

    @Test
    void theRulesNameKnownSeries() throws IOException {
        assertThat(unknown(Files.readString(RULES))).isEmpty();
    }

    @Test
    void everyPanelHasATitleADescriptionAUnitAndAQuery() throws IOException {
        int panels = 0;
        for (JsonNode panel : new ObjectMapper().readTree(DASHBOARD.toFile()).get("panels")) {
            if (panel.get("type").asString().equals("row")) {
                continue;
            }
            panels++;
            String title = panel.path("title").asString();
            assertThat(title).isNotBlank();
            assertThat(panel.path("description").asString()).as(title).isNotBlank();
            assertThat(panel.at("/fieldConfig/defaults/unit").asString())
                    .as(title)
                    .isNotBlank();
            assertThat(panel.get("targets")).as(title).isNotEmpty();
            for (JsonNode target : panel.get("targets")) {
                assertThat(SERIES.matcher(target.get("expr").asString()).find())
                        .as(title)
                        .isTrue();
            }
        }
        assertThat(panels).isPositive();
    }

    /** Series in a text that no metric of the table has. */
    private static Set<String> unknown(String text) {
        Set<String> known = new TreeSet<>();
        for (Metric metric : Metric.values()) {
            switch (metric.type()) {
                case COUNTER, GAUGE -> known.add(metric.exposed());
                case HISTOGRAM ->
                    Stream.of("_bucket", "_sum", "_count").forEach(suffix -> known.add(metric.exposed() + suffix));
            }
        }
        Set<String> unknown = new TreeSet<>();
        Matcher series = SERIES.matcher(text);
        while (series.find()) {
            unknown.add(series.group());
        }
        assertThat(unknown).isNotEmpty();
        unknown.removeAll(known);
        return unknown;
    }
}
