package dev.tandem.bench.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RateSearchTest {
    /** A search in which a rate is its own result, and those up to the limit hold. */
    private static RateSearch<Double> search(double limit) {
        return new RateSearch<>(rate -> rate <= limit, rate -> rate);
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.01, 1, 3.2, 3.4, 500})
    void theHighestRateIsFoundFromEitherSide(double start) {
        RateSearch<Double> search = search(3.3);
        assertThat(search.highest(start).orElseThrow()).isBetween(3.3 / 1.02, 3.3);
        assertThat(search.measured()).hasSizeLessThan(20);
    }

    @Test
    void eachRateIsMeasuredOnce() {
        int[] runs = {0};
        RateSearch<Double> search = new RateSearch<>(rate -> rate <= 3.3, rate -> {
            runs[0]++;
            return rate;
        });
        search.highest(1);
        assertThat(runs[0]).isEqualTo(search.measured().size());
    }

    @Test
    void aRequirementThatNoRateChangesHasNoHighestRate() {
        assertThat(search(Double.MAX_VALUE).highest(1)).isEmpty();
        assertThat(search(0).highest(1)).isEmpty();
    }

    @Test
    void aRequirementReadsItsKeyAndBound() {
        Set<String> keys = Set.of("goodput_fraction", "p99_ttft_ms");
        Map<String, Object> result =
                Map.of("completed", 3, "arrived", 3, "goodput_fraction", 0.95, "p99_ttft_ms", 501.0);
        assertThat(Requirement.parse("goodput>=0.95", keys).holds(result)).isTrue();
        assertThat(Requirement.parse("p99_ttft_ms<=500", keys).holds(result)).isFalse();
        assertThatThrownBy(() -> Requirement.parse("p99_ttft_ms<500", keys)).hasMessageContaining("p99_ttft_ms<500");
        assertThatThrownBy(() -> Requirement.parse("p50_ttft_ms<=500", keys)).hasMessageContaining("p50_ttft_ms");
    }

    @Test
    void aRateWithAFailedRequestDoesNotHold() {
        Map<String, Object> result = Map.of("completed", 2, "arrived", 3, "goodput_fraction", 1);
        assertThat(Requirement.parse("goodput>=0.5", Set.of("goodput_fraction")).holds(result))
                .isFalse();
    }
}
