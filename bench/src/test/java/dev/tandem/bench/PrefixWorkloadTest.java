package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the prefix cache gains with common prefixes, and that it costs nothing without; in virtual time. */
class PrefixWorkloadTest {
    private static double seconds(Strategy strategy, String workload, int requests, PrefixCacheOptions caching) {
        var parts = SimulatedMachine.H200_26K.simulation(strategy, false, 1, Host.USABLE, new LatencyTargets(0, 0));
        var run = new SimulatedRun(
                parts.config().withPrefixCache(caching),
                parts.scheduler(),
                parts.executor(),
                parts.clock(),
                Workload.parse(workload, 0));
        assertThat(run.whole(requests).get("failed")).isEqualTo(0);
        return parts.clock().nanos() / 1e9;
    }

    @Test
    void requestsThatArriveTogetherComputeTheirPrefixOnce() {
        double off = seconds(Strategy.GPU_ONLY, "prefix:1000/50/16", 64, PrefixCacheOptions.OFF);
        double on = seconds(Strategy.GPU_ONLY, "prefix:1000/50/16", 64, PrefixCacheOptions.on(1));
        assertThat(on / off).as("%s of %s s", on, off).isLessThan(0.35);
    }

    @ParameterizedTest
    @CsvSource({"GPU_ONLY, synthetic:1000/200", "ADAPTIVE, synthetic:1000/200", "ADAPTIVE, osc"})
    void withoutHitsNothingChanges(Strategy strategy, String workload) {
        double off = seconds(strategy, workload, 300, PrefixCacheOptions.OFF);
        double on = seconds(strategy, workload, 300, PrefixCacheOptions.on(1));
        assertThat(on).isCloseTo(off, within(0.01 * off));
    }
}
