package dev.tandem.bench.report;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LoadReportTest {
    private static final List<Map<String, Object>> RESULTS = List.of(
            Map.of("offered_request_rate", 2.0, "request_throughput", 1.5, "p99_ttft_ms", 90.0, "std_ttft_ms", 1.0),
            Map.of("offered_request_rate", 1.0, "request_throughput", 1.0, "p99_ttft_ms", 30.0, "std_ttft_ms", 1.0));

    @Test
    void curvesRiseWithTheRateAndEachLatencyHasAPlot() {
        Map<String, Plot> plots = new LoadReport(RESULTS).plots();
        assertThat(plots).containsOnlyKeys("throughput", "output", "ttft");
        Series p99 = plots.get("ttft").series().getFirst();
        assertThat(plots.get("ttft").series()).as("no standard deviation").hasSize(1);
        assertThat(p99.name()).isEqualTo("p99_ttft");
        assertThat(p99.points()).containsExactly(new Series.Point(1, 30), new Series.Point(2, 90));
    }

    @Test
    void thePageHasTheCommandAndEveryField() {
        String page = new LoadReport(RESULTS).html("Load", "tandem bench serve --find-rate 'goodput>=0.9'");
        assertThat(page).contains("goodput&gt;=0.9", "std_ttft_ms", "<td>1.5</td>");
    }
}
