package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.bench.SimulatedMachine.Simulation;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Open loops on the virtual clock, on a machine on which gpu-only answers about two requests per second. */
class SimulatedOpenLoopTest {
    private static final Workload WORKLOAD = Workload.parse("synthetic:200/100", 0);
    private static final LoadWindow WINDOW = new LoadWindow.Timed(
            Duration.ofSeconds(60), Duration.ofSeconds(300), Duration.ofSeconds(30), Duration.ofSeconds(60));

    private static SimulatedRun.OpenLoop run(Arrivals arrivals, LoadWindow window, long seed) {
        Simulation parts = SimulatedMachine.H200_8SM_2REQ.simulation(
                Strategy.GPU_ONLY, false, 1, Host.USABLE, LatencyTargets.NONE);
        Load load = new Load(arrivals, window, GoodputTargets.parse(List.of("ttft:2000")), seed);
        return new SimulatedRun(parts.config(), parts.scheduler(), parts.executor(), parts.clock(), WORKLOAD)
                .open(load);
    }

    @Test
    void belowSaturationAllRequestsEndAtTheRateAtWhichTheyArrive() {
        LoadResult result = run(new Arrivals.Poisson(1), WINDOW, 1).load();
        assertThat(result.counts().arrived()).isBetween(250, 350);
        assertThat(result.counts().completed()).isEqualTo(result.counts().arrived());
        assertThat(result.rates().requests()).isCloseTo(result.rates().offered(), within(0.05));
        assertThat(result.latency(Metric.ITL).count())
                .isEqualTo(result.counts().outputTokens() - result.counts().completed());
        assertThat(result.goodputFraction()).isGreaterThan(0.9);
    }

    @Test
    void aboveSaturationTheBacklogIsCountedAndTheDrainIsBounded() {
        LoadResult result = run(new Arrivals.Poisson(6), WINDOW, 1).load();
        assertThat(result.rates().requests()).isLessThan(0.6 * result.rates().offered());
        assertThat(result.counts().unfinished()).isPositive();
        assertThat(result.counts().completed() + result.counts().unfinished())
                .isEqualTo(result.counts().arrived());
        assertThat(result.goodputFraction()).isLessThan(0.1);
    }

    @Test
    void equalSeedsGiveEqualResults() {
        Arrivals arrivals = new Arrivals.Gamma(1, 0.5);
        assertThat(run(arrivals, WINDOW, 3).load().toMap())
                .isEqualTo(run(arrivals, WINDOW, 3).load().toMap())
                .isNotEqualTo(run(arrivals, WINDOW, 4).load().toMap());
    }

    @Test
    void anInfiniteRateIsAWholeRun() {
        LoadResult result = run(new Arrivals.AtOnce(), new LoadWindow.Requests(20, Duration.ofHours(1)), 0)
                .load();
        assertThat(result.counts().completed()).isEqualTo(20);
        assertThat(result.counts().maxConcurrent()).isEqualTo(20);
        assertThat(result.rates().offered()).isCloseTo(20 / result.seconds(), within(1e-9));
    }
}
