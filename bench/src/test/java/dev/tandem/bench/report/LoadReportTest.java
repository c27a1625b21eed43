package dev.tandem.bench.report;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.ideal.IdealFields;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LoadReportTest {
    private static final List<Map<String, Object>> RESULTS = List.of(result(2, 1.5, 90), result(1, 1, 30));

    private static Map<String, Object> result(double offered, double ended, double p99) {
        return Map.of(
                "offered_request_rate",
                offered,
                "request_throughput",
                ended,
                "output_throughput",
                100 * ended,
                "p99_ttft_ms",
                p99,
                "std_ttft_ms",
                1.0);
    }

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
        assertThat(page).contains("goodput&gt;=0.9", "std_ttft_ms", "<td class=\"number\">1.5</td>");
    }

    @Test
    void theIdealIsAColumnAndACurveWhereItIsKnown() {
        Map<String, Object> held = new HashMap<>(RESULTS.getFirst());
        IdealFields.complete(held, 200);

        LoadReport report = new LoadReport(List.of(held));

        assertThat(report.html("Load", ""))
                .contains("<th class=\"number\">share of ideal</th>", "<td class=\"number\">0.75</td>");
        assertThat(report.plots().get("output").series())
                .extracting(Series::name)
                .containsExactly("output_throughput", "ideal_output_tokens_per_second");
        assertThat(new LoadReport(RESULTS).html("Load", "")).doesNotContain("ideal");
    }
}
