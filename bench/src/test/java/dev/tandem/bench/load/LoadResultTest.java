package dev.tandem.bench.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

class LoadResultTest {
    private static final long SECOND = 1_000_000_000;
    private static final LoadWindow WINDOW = new LoadWindow.Timed(
            Duration.ofSeconds(10), Duration.ofSeconds(20), Duration.ofSeconds(5), Duration.ofSeconds(100));

    /** A request that receives its first token after 0.5 s and two more, each after 0.25 s. */
    private static RequestTimes ended(double arrival) {
        long at = (long) (arrival * SECOND);
        RequestTimes request = new RequestTimes(at, 100);
        request.ready(at + 1_000_000);
        request.receive(at + SECOND / 2, 1);
        request.receive(at + 3 * SECOND / 4, 1);
        request.receive(at + SECOND, 1);
        request.end(at + SECOND);
        return request;
    }

    private static LoadResult result(GoodputTargets targets, RequestTimes... requests) {
        return LoadResult.of(new Load(new Arrivals.Poisson(1), WINDOW, targets, 0), List.of(requests));
    }

    @Test
    void requestsCountByArrivalAndThroughputByTime() {
        // the first arrives before the window and ends in it; the last arrives in it and ends after it
        LoadResult result = result(GoodputTargets.NONE, ended(9.4), ended(15), ended(29.4), ended(32));
        assertThat(result.seconds()).isEqualTo(20);
        assertThat(result.counts().arrived()).isEqualTo(2);
        assertThat(result.counts().completed()).isEqualTo(2);
        assertThat(result.rates().offered()).isEqualTo(0.1);
        assertThat(result.rates().requests()).isEqualTo(2 / 20.0);
        assertThat(result.rates().outputTokens()).isEqualTo((2 + 3 + 1) / 20.0);
        assertThat(result.rates().totalTokens()).isEqualTo((6 + 200) / 20.0);
        assertThat(result.rates().maxOutputTokens()).isEqualTo(2);
    }

    @Test
    void latenciesCountFromTheIntendedArrival() {
        LoadResult result = result(GoodputTargets.NONE, ended(15));
        assertThat(result.latency(Metric.TTFT).mean()).isEqualTo(500);
        assertThat(result.latency(Metric.TPOT).mean()).isEqualTo(250);
        assertThat(result.latency(Metric.ITL).count()).isEqualTo(2);
        assertThat(result.latency(Metric.E2EL).mean()).isEqualTo(1000);
        assertThat(result.latency(Metric.LATENCY_PER_TOKEN).mean()).isCloseTo(1000 / 3.0, within(0.001));
        assertThat(result.sendDelay().percentile(99)).isCloseTo(1, within(0.01));
    }

    @Test
    void noRequestIsLost() {
        RequestTimes failed = new RequestTimes(12 * SECOND, 5);
        failed.fail(13 * SECOND, "HTTP 503", "overloaded");
        RequestTimes unfinished = new RequestTimes(14 * SECOND, 5);
        unfinished.receive(15 * SECOND, 1);
        LoadResult result = result(GoodputTargets.NONE, failed, unfinished, ended(16));
        assertThat(result.counts()).isEqualTo(new LoadResult.Counts(3, 1, 1, 1, 100, 3, 2));
        assertThat(result.errors()).containsOnlyKeys("HTTP 503").containsValue(1);
        assertThat(result.latency(Metric.TTFT).count()).isEqualTo(2);
        assertThat(result.latency(Metric.E2EL).count()).isEqualTo(1);
    }

    @Test
    void goodputNeedsEveryTargetAndAWholeAnswer() {
        RequestTimes failed = new RequestTimes(12 * SECOND, 5);
        failed.fail(12 * SECOND, "cut", "");
        assertThat(result(GoodputTargets.parse(List.of("ttft:500", "tpot:250")), failed, ended(15))
                        .goodputFraction())
                .isEqualTo(0.5);
        assertThat(result(GoodputTargets.parse(List.of("ttft:500", "tpot:249")), ended(15))
                        .rates()
                        .goodput())
                .isZero();
    }

    @Test
    void aRunOfANumberOfRequestsEndsWithTheLast() {
        Load load = new Load(
                new Arrivals.AtOnce(), new LoadWindow.Requests(2, Duration.ofSeconds(9)), GoodputTargets.NONE, 0);
        LoadResult result = LoadResult.of(load, List.of(ended(0), ended(2)));
        assertThat(result.seconds()).isCloseTo(3, within(1e-6));
        assertThat(result.rates().outputTokens()).isCloseTo(2, within(1e-6));
        assertThat(result.counts().maxConcurrent()).isEqualTo(1);
    }

    @Test
    void theKeysAreThoseOfVllm() {
        assertThat(result(GoodputTargets.NONE, ended(15)).toMap())
                .containsKeys(
                        "duration",
                        "completed",
                        "failed",
                        "total_input_tokens",
                        "total_output_tokens",
                        "request_throughput",
                        "request_goodput",
                        "output_throughput",
                        "total_token_throughput",
                        "mean_ttft_ms",
                        "median_ttft_ms",
                        "std_ttft_ms",
                        "p99_ttft_ms",
                        "mean_e2el_ms");
    }

    @Test
    void aBadTargetIsRefused() {
        assertThatThrownBy(() -> GoodputTargets.parse(List.of("ttft=3"))).hasMessageContaining("--goodput ttft=3");
        assertThatThrownBy(() -> GoodputTargets.parse(List.of("itl:3"))).hasMessageContaining("--goodput itl:3");
    }
}
