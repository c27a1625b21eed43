package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class StatisticsTest {
    @Test
    void percentilesAreInterpolatedBetweenSortedValues() {
        double[] sorted = {10, 20, 30, 40};
        assertThat(Statistics.percentile(sorted, 0)).isEqualTo(10);
        assertThat(Statistics.percentile(sorted, 50)).isEqualTo(25);
        assertThat(Statistics.percentile(sorted, 90)).isCloseTo(37, within(1e-9));
        assertThat(Statistics.percentile(sorted, 100)).isEqualTo(40);
        assertThat(Statistics.percentile(new double[] {7}, 99)).isEqualTo(7);
        assertThat(Statistics.percentile(new double[0], 50)).isZero();
    }

    @Test
    void theMedianSortsACopy() {
        double[] values = {3, 1, 2};
        assertThat(Statistics.median(values)).isEqualTo(2);
        assertThat(values).containsExactly(3, 1, 2);
    }

    @Test
    void aSeriesIsDescribedUnderVllmsNames() {
        Map<String, Object> result = new LinkedHashMap<>();
        double[] values = {4, 2, 6, 8};
        Statistics.put(result, "ttft", values);
        assertThat(result)
                .containsExactly(
                        Map.entry("mean_ttft_ms", 5.0),
                        Map.entry("median_ttft_ms", 5.0),
                        Map.entry("std_ttft_ms", 2.236),
                        Map.entry("p90_ttft_ms", 7.4),
                        Map.entry("p99_ttft_ms", 7.94));
        assertThat(values).containsExactly(4, 2, 6, 8);
        Statistics.put(result, "itl", new double[0]);
        assertThat(result).containsEntry("mean_itl_ms", 0.0).containsEntry("p99_itl_ms", 0.0);
    }
}
