package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import java.time.Duration;
import java.util.List;
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

    /** 10 conversations of 4 turns: all but the first turn hit what came before, but for the ends of blocks. */
    @Test
    void aTurnHitsTheConversationSoFar() {
        SimulatedRun.OpenLoop open = conversations(40, 3);
        assertThat(open.load().counts().completed()).isEqualTo(40);
        List<Integer> prompts = open.requests().stream()
                .map(RequestTimes::promptTokens)
                .sorted()
                .distinct()
                .toList();
        assertThat(prompts).as("seed 3").containsExactly(400, 600, 800, 1000);
        long sum =
                open.requests().stream().mapToLong(RequestTimes::promptTokens).sum();
        assertThat(open.prefixCache().queries()).isEqualTo(sum);
        // each turn computes its own 100 tokens, and less than a block of the rest, but 400 for the very first one
        long computed = sum - open.prefixCache().hits();
        assertThat(computed).as("seed 3").isBetween(39L * 100 + 400, 39L * 116 + 400 + 10 * 16);
    }

    @Test
    void equalSeedsGiveEqualConversations() {
        assertThat(conversations(40, 3).load().toMap())
                .isEqualTo(conversations(40, 3).load().toMap())
                .isNotEqualTo(conversations(40, 4).load().toMap());
    }

    private static SimulatedRun.OpenLoop conversations(int requests, long seed) {
        var parts = SimulatedMachine.H200_26K.simulation(
                Strategy.GPU_ONLY, false, 1, Host.USABLE, new LatencyTargets(0, 0));
        Load load = new Load(
                new Arrivals.Poisson(0.1),
                new LoadWindow.Requests(requests, Duration.ofMinutes(1)),
                GoodputTargets.NONE,
                seed,
                5);
        return new SimulatedRun(
                        parts.config().withPrefixCache(PrefixCacheOptions.on(1)),
                        parts.scheduler(),
                        parts.executor(),
                        parts.clock(),
                        Workload.parse("prefix:300/100/100/4", 0))
                .open(load);
    }

    @ParameterizedTest
    @CsvSource({"GPU_ONLY, synthetic:1000/200", "ADAPTIVE, synthetic:1000/200", "ADAPTIVE, osc"})
    void withoutHitsNothingChanges(Strategy strategy, String workload) {
        double off = seconds(strategy, workload, 300, PrefixCacheOptions.OFF);
        double on = seconds(strategy, workload, 300, PrefixCacheOptions.on(1));
        assertThat(on).isCloseTo(off, within(0.01 * off));
    }
}
