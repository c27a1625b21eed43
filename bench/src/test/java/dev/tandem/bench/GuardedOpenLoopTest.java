package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.bench.SimulatedMachine.Host;
import dev.tandem.bench.SimulatedMachine.Simulation;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Latencies;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.strategy.select.Strategy;
import java.time.Duration;
import java.util.List;
import java.util.function.ToDoubleFunction;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

/**
 * The guarded default within 250 ms per token beside gpu-only, with the same Poisson arrivals and equal GPU memory, on
 * the machine that holds two requests. gpu-only answers 9.2 requests per second there. {@code tools/latency.sh} runs
 * every preset and workload.
 */
class GuardedOpenLoopTest {
    private static final SimulatedMachine MACHINE = SimulatedMachine.H200_2REQ;
    private static final Workload WORKLOAD = Workload.parse("osc", 0);
    private static final double SATURATION = 9.2;
    private static final LatencyTargets TARGETS = new LatencyTargets(0, 250_000_000);
    private static final int SEEDS = 3;
    private static final LoadWindow WINDOW = new LoadWindow.Timed(
            Duration.ofSeconds(120), Duration.ofSeconds(120), Duration.ofSeconds(30), Duration.ofSeconds(60));

    private static List<LoadResult> run(Strategy strategy, double load) {
        return LongStream.rangeClosed(1, SEEDS)
                .mapToObj(seed -> run(strategy, load, seed))
                .toList();
    }

    private static LoadResult run(Strategy strategy, double load, long seed) {
        Simulation parts = MACHINE.simulation(strategy, strategy != Strategy.GPU_ONLY, 1, Host.USABLE, TARGETS);
        Arrivals arrivals = new Arrivals.Poisson(load * SATURATION);
        return new SimulatedRun(parts.config(), parts.scheduler(), parts.executor(), parts.clock(), WORKLOAD)
                .open(new Load(arrivals, WINDOW, GoodputTargets.parse(List.of("tpot:250")), seed))
                .load();
    }

    /**
     * Runs of both, with the same arrivals.
     *
     * @param guarded those of the guarded default
     */
    private record Runs(List<LoadResult> gpuOnly, List<LoadResult> guarded) {
        static Runs at(double load) {
            return new Runs(run(Strategy.GPU_ONLY, load), run(Strategy.ADAPTIVE, load));
        }

        /** A figure of the guarded default over gpu-only's, each the mean over the seeds. */
        double ratio(Metric metric, ToDoubleFunction<Latencies> figure) {
            return mean(guarded, metric, figure) / mean(gpuOnly, metric, figure);
        }

        private static double mean(List<LoadResult> runs, Metric metric, ToDoubleFunction<Latencies> figure) {
            return runs.stream()
                    .mapToDouble(run -> figure.applyAsDouble(run.latency(metric)))
                    .average()
                    .orElseThrow();
        }
    }

    @Test
    void atNineTenthsOfSaturationRequestsWaitNoLongerThanWithGpuOnly() {
        Runs runs = Runs.at(0.9);
        assertThat(runs.ratio(Metric.TPOT, Latencies::mean)).as("mean TPOT").isLessThan(1.05);
        assertThat(runs.ratio(Metric.ITL, itl -> itl.percentile(99)))
                .as("p99 ITL")
                .isLessThan(1.1);
        assertThat(runs.ratio(Metric.TTFT, Latencies::mean)).as("mean TTFT").isLessThan(1.05);
    }

    @Test
    void aboveSaturationTheHostIsUsed() {
        assertThat(Runs.at(1.1).ratio(Metric.TTFT, Latencies::mean))
                .as("mean TTFT")
                .isLessThan(0.5);
    }
}
