package dev.tandem.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class ServerMetricsTest {
    private double ratio = Double.NaN;

    @Test
    void theIdealGainIsReadAtEachScrapeAndAbsentWhileUnknown() {
        ServerMetrics metrics = new ServerMetrics("m");
        metrics.watchIdeal(() -> ratio);
        assertThat(scrape(metrics)).doesNotContain("tandem:ideal_gain{");
        ratio = 1.25;
        assertThat(scrape(metrics)).contains("tandem:ideal_gain{engine=\"0\",model_name=\"m\"} 0.25\n");
    }

    private static String scrape(ServerMetrics metrics) {
        return new String(metrics.scrape(), StandardCharsets.UTF_8);
    }
}
