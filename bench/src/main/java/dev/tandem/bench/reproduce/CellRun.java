package dev.tandem.bench.reproduce;

import dev.tandem.bench.Workload;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Latencies;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.bench.reproduce.CellEngines.Measured;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.CostModel;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;

/**
 * Runs one cell and makes its points, by what the figure measures.
 *
 * <p>Owned by: the thread that runs the cell.
 */
final class CellRun {
    /** The artifact does not measure the first quarter of the requests (its script for Figure 6c). */
    private static final double WARM_UP_FRACTION = 0.25;
    /** The artifact counts throughput from 30 % to 70 % of the ends (its script for Figure 10a). */
    private static final double FIRST_END = 0.3;

    private static final double LAST_END = 0.7;
    /** Tokens of context per request in APEX Figure 3. */
    private static final int ATTENTION_CONTEXT = 1024;
    /** Time without a limit: overloaded runs end when the last request has ended. */
    private static final Duration UNBOUNDED = Duration.ofDays(365);

    private final Cell cell;
    private final CellEngines engines;
    private final Panel panel;
    private final ComparedSystem system;

    CellRun(Cell cell, CellEngines engines) {
        this.cell = cell;
        this.engines = engines;
        this.panel = cell.figure().panel(cell.panel());
        this.system = panel.system(cell.system());
    }

    /** Runs the cell and returns its points. */
    List<Point> points() throws InterruptedException {
        return switch (cell.figure().experiment()) {
            case LOAD_LATENCY -> {
                Measured run = load(cell.x());
                yield List.of(point(cell.x(), perToken(run).mean() / 1e3, run));
            }
            case LATENCY_PERCENTILES -> {
                Measured run = load(panel.rate());
                yield system.x().stream()
                        .map(percent -> point(percent, perToken(run).percentile(percent) / 1e3, run))
                        .toList();
            }
            case THROUGHPUT -> {
                Measured run = atOnce(system);
                yield List.of(point(cell.x(), requestsPerSecond(run), run));
            }
            case TOTAL_TOKENS -> {
                Measured run = atOnce(system);
                yield List.of(point(cell.x(), run.load().rates().totalTokens(), run));
            }
            case LINEAR_SECONDS -> List.of(point(cell.x(), cost().linear((int) cell.x())));
            case ATTENTION_SECONDS -> List.of(point(cell.x(), attentionSeconds((int) cell.x())));
            case SPEEDUP_FORMULA -> List.of(speedup());
        };
    }

    private Point point(double x, double value) {
        return new Point(cell, x, value, Map.of());
    }

    private Point point(double x, double value, Measured run) {
        Map<String, Object> details = new LinkedHashMap<>(run.load().toMap());
        details.putAll(run.details());
        artifactThroughput(run).ifPresent(rate -> details.put("artifact_request_throughput", rate));
        return new Point(cell, x, value, details);
    }

    private static double requestsPerSecond(Measured run) {
        return run.load().rates().requests();
    }

    private Latencies perToken(Measured run) {
        Latencies latencies = run.load().latency(Metric.LATENCY_PER_TOKEN);
        if (latencies.count() == 0) {
            throw new ConfigurationException("no request arrived in the window of " + cell
                    + ", which begins after a quarter of the time; raise --requests");
        }
        return latencies;
    }

    private Measured load(double rate) throws InterruptedException {
        Duration all = seconds(panel.requests() / rate);
        Duration warmUp = seconds(panel.requests() / rate * WARM_UP_FRACTION);
        LoadWindow window = new LoadWindow.Timed(warmUp, all.minus(warmUp), Duration.ZERO, UNBOUNDED);
        Load load = new Load(new Arrivals.Poisson(rate), window, GoodputTargets.NONE, cell.seed());
        return engines.run(system, workload(), load);
    }

    private Measured atOnce(ComparedSystem of) throws InterruptedException {
        LoadWindow window = new LoadWindow.Requests(panel.requests(), UNBOUNDED);
        return engines.run(of, workload(), new Load(new Arrivals.AtOnce(), window, GoodputTargets.NONE, cell.seed()));
    }

    private static Duration seconds(double seconds) {
        return Duration.ofNanos(Math.round(seconds * 1e9));
    }

    private Workload workload() {
        return Workload.parse(panel.workload().replace("{x}", Numbers.text(cell.x())), cell.seed());
    }

    /**
     * Requests per second between two fractions of all ends, in the order of the ends, as the artifact counts; empty
     * where they are too few for that. It is more than a steady rate where the host holds most of the requests: they
     * are prefilled before the first of them ends.
     */
    private static OptionalDouble artifactThroughput(Measured run) {
        long[] ends = run.requests().stream()
                .mapToLong(RequestTimes::endedAt)
                .sorted()
                .toArray();
        int first = (int) Math.round(ends.length * FIRST_END);
        int last = (int) Math.round(ends.length * LAST_END);
        return last < ends.length && ends[last] > ends[first]
                ? OptionalDouble.of((last - first) * 1e9 / (ends[last] - ends[first]))
                : OptionalDouble.empty();
    }

    private boolean isHybrid() {
        return PanelEngine.strategy(system, cell.fidelity()).offloads();
    }

    private CostModel cost() {
        return engines.cost(system);
    }

    private double attentionSeconds(int batch) {
        long tokens = (long) batch * ATTENTION_CONTEXT;
        return isHybrid() ? cost().cpuAttention(batch, tokens) : cost().gpuAttention(tokens);
    }

    private Point speedup() throws InterruptedException {
        if (!isHybrid()) {
            return point(cell.x(), SpeedupFormula.of(cost(), panel, workload()).product());
        }
        ComparedSystem baseline = new ComparedSystem("gpu-only", "gpu-only", 1, system.x());
        Measured run = atOnce(system);
        return point(cell.x(), requestsPerSecond(run) / requestsPerSecond(atOnce(baseline)) - 1, run);
    }
}
