package dev.tandem.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Checks that the page of metrics shows the table; {@code -Dtandem.docs.write=true} writes it. */
class MetricsPageTest {
    private static final Path PAGE = Path.of("../docs/reference/metrics.md");

    @Test
    void pageShowsTheTableOfMetrics() throws IOException {
        String page = page();
        if (Boolean.getBoolean("tandem.docs.write")) {
            Files.writeString(PAGE, page);
        }
        assertThat(Files.readString(PAGE))
                .as("run this test with -Dtandem.docs.write=true")
                .isEqualTo(page);
    }

    private static String page() {
        return """
                # Metrics

                This page is written from the class `Metric` by a test; do not edit it.

                All metrics have the labels `model_name` and `engine`; the table lists further ones.
                A histogram `NAME` has the series `NAME_bucket`, `NAME_sum` and `NAME_count`.
                [The guide](../guide/metrics.md) says what to watch.

                ## Under vLLM's names

                """ + table("vllm:") + """

                ## Tandem's own

                """ + table("tandem:");
    }

    private static String table(String prefix) {
        return Stream.of(Metric.values())
                .filter(metric -> metric.exposed().startsWith(prefix))
                .sorted(Comparator.comparing(metric -> metric.exposed()))
                .map(MetricsPageTest::row)
                .collect(Collectors.joining(
                        "\n", "| metric | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n", "\n"));
    }

    private static String row(Metric metric) {
        return String.join(
                " | ",
                List.of(
                        "| `" + metric.exposed() + "`",
                        metric.type().name().toLowerCase(Locale.ROOT),
                        metric.unit().text,
                        metric.furtherLabels().stream()
                                .map(label -> "`" + label + "`")
                                .collect(Collectors.joining(", ")),
                        metric.help() + " |"));
    }
}
