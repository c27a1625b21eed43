package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.server.metrics.Metric;
import dev.tandem.server.metrics.ServerMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The metrics of a model as Micrometer's meters. */
class TandemMetricsTest {
    private static final int TOKENS = 24;
    private static Tandem tandem;

    @BeforeAll
    static void load(@TempDir Path folder) {
        tandem = Tandem.load(TandemTest.options(folder));
    }

    @AfterAll
    static void close() {
        tandem.close();
    }

    private static double counter(MeterRegistry registry, Metric metric, String... tags) {
        return registry.get(metric.exposed()).tags(tags).counter().count();
    }

    private static Set<String> series(String text) {
        return Pattern.compile("^[^#{ ]+(\\{[^}]*})?", Pattern.MULTILINE)
                .matcher(text)
                .results()
                .map(MatchResult::group)
                .map(series -> series.replaceAll("model_name=\"[^\"]*\"", "model_name=\"m\""))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    @Test
    void anAnswersTokensAndTimesAreCounted() {
        MeterRegistry registry = new SimpleMeterRegistry();
        try (TandemMetrics metrics = new TandemMetrics(tandem)) {
            metrics.bindTo(registry);
            tandem.chat(TandemTest.request("w3 w4", TOKENS)).result();
            assertThat(counter(registry, Metric.GENERATION_TOKENS)).isEqualTo(TOKENS);
            assertThat(counter(registry, Metric.REQUEST_SUCCESS, "finished_reason", "length"))
                    .isEqualTo(1);
            var firstToken = registry.get(Metric.TIME_TO_FIRST_TOKEN.exposed()).timer();
            assertThat(firstToken.count()).isEqualTo(1);
            assertThat(firstToken.totalTime(TimeUnit.SECONDS)).isBetween(1e-6, 60.0);
            var output =
                    registry.get(Metric.REQUEST_GENERATION_TOKENS.exposed()).summary();
            assertThat(output.totalAmount()).isEqualTo(TOKENS);
            assertThat(registry.get(Metric.CACHE_CONFIG.exposed())
                            .tag("block_size", "16")
                            .gauge()
                            .value())
                    .isEqualTo(1);
        }
    }

    @Test
    void prometheusSeesTheSeriesOfTheServer() {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        try (TandemMetrics metrics = new TandemMetrics(tandem)) {
            metrics.bindTo(registry);
            ServerMetrics server = new ServerMetrics("m");
            Runnable end = tandem.watchedBy(server);
            Set<String> ofServer = series(new String(server.scrape(), StandardCharsets.UTF_8));
            end.run();
            // Micrometer keeps these two ends of names for counters and for info metrics
            assertThat(series(registry.scrape()))
                    .containsAll(ofServer.stream()
                            .map(series -> series.replace("iteration_tokens_total", "iteration_tokens")
                                    .replace("cache_config_info", "cache_config"))
                            .toList());
        }
    }

    @Test
    void closingRemovesTheMetersAndEndsTheCounting() {
        MeterRegistry registry = new SimpleMeterRegistry();
        TandemMetrics metrics = new TandemMetrics(tandem);
        metrics.bindTo(registry);
        var tokens = registry.get(Metric.GENERATION_TOKENS.exposed()).counter();
        assertThat(registry.getMeters()).hasSizeGreaterThan(20);
        metrics.close();
        assertThat(registry.getMeters()).isEmpty();
        tandem.chat(TandemTest.request("w3 w4", TOKENS)).result();
        assertThat(tokens.count()).isZero();
    }
}
