package dev.tandem.bench.reproduce;

import dev.tandem.bench.SimulatedEngine;
import dev.tandem.bench.SimulatedRun.OpenLoop;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.Workload;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Latencies;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.bench.reproduce.Panel.ComparedSystem;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Simulates one cell: the real scheduler over the profile of the figure's machine.
 *
 * <p>Owned by: the thread that simulates the cell.
 */
final class CellSimulation {
    /** The artifact does not measure the first quarter of the requests (its script for Figure 6c). */
    private static final double WARM_UP_FRACTION = 0.25;
    /** The artifact counts throughput from 30 % to 70 % of the ends (its script for Figure 10a). */
    private static final double FIRST_END = 0.3;

    private static final double LAST_END = 0.7;
    /** Tokens of context per request in APEX Figure 3. */
    private static final int ATTENTION_CONTEXT = 1024;
    /** Virtual time without a limit: overloaded runs end when the last request has ended. */
    private static final Duration UNBOUNDED = Duration.ofDays(365);

    private final Cell cell;
    private final Panel panel;
    private final ComparedSystem system;
    private final ModelShape model;

    CellSimulation(Cell cell) {
        this.cell = cell;
        this.panel = cell.figure().panel(cell.panel());
        this.system = panel.system(cell.system());
        String file = "models/" + panel.setting().model() + ".json";
        this.model = ModelShape.read(Figure.resource(file), file);
    }

    /** The points of the cell. */
    List<Point> run() {
        return switch (cell.figure().experiment()) {
            case LOAD_LATENCY -> {
                OpenLoop run = load(cell.x());
                yield List.of(point(cell.x(), perToken(run).mean() / 1e3, run));
            }
            case LATENCY_PERCENTILES -> {
                OpenLoop run = load(panel.rate());
                yield system.x().stream()
                        .map(percent -> point(percent, perToken(run).percentile(percent) / 1e3, run))
                        .toList();
            }
            case THROUGHPUT -> {
                OpenLoop run = atOnce(engine(system));
                yield List.of(point(cell.x(), requestsPerSecond(run), run));
            }
            case TOTAL_TOKENS -> {
                OpenLoop run = atOnce(engine(system));
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

    private Point point(double x, double value, OpenLoop run) {
        Map<String, Object> details = new LinkedHashMap<>(run.load().toMap());
        details.put("host_token_fraction", Statistics.rounded(run.hostTokenFraction()));
        details.put("host_busy_fraction", Statistics.rounded(run.hostBusyFraction()));
        details.put("artifact_request_throughput", artifactThroughput(run));
        return new Point(cell, x, value, details);
    }

    private static double requestsPerSecond(OpenLoop run) {
        return run.load().rates().requests();
    }

    private static Latencies perToken(OpenLoop run) {
        return run.load().latency(Metric.LATENCY_PER_TOKEN);
    }

    private OpenLoop load(double rate) {
        Duration all = seconds(panel.requests() / rate);
        Duration warmUp = seconds(panel.requests() / rate * WARM_UP_FRACTION);
        LoadWindow window = new LoadWindow.Timed(warmUp, all.minus(warmUp), Duration.ZERO, UNBOUNDED);
        Load load = new Load(new Arrivals.Poisson(rate), window, GoodputTargets.NONE, cell.seed());
        return complete(engine(system).open(workload(), load));
    }

    private OpenLoop atOnce(SimulatedEngine engine) {
        LoadWindow window = new LoadWindow.Requests(panel.requests(), UNBOUNDED);
        return complete(
                engine.open(workload(), new Load(new Arrivals.AtOnce(), window, GoodputTargets.NONE, cell.seed())));
    }

    /** A run of which every request has ended: a lost one would make the others look faster. */
    private OpenLoop complete(OpenLoop run) {
        long lost = run.requests().stream()
                .filter(request -> !(request.outcome() instanceof RequestTimes.Outcome.Ended))
                .count();
        if (lost > 0) {
            throw new IllegalStateException(lost + " of " + run.requests().size() + " simulated requests of "
                    + cell.figure().id() + ", " + panel.name() + "/" + system.name() + " at " + Numbers.text(cell.x())
                    + " did not end; a request may be longer than the limits of the panel");
        }
        return run;
    }

    private static Duration seconds(double seconds) {
        return Duration.ofNanos(Math.round(seconds * 1e9));
    }

    private Workload workload() {
        return Workload.parse(panel.workload().replace("{x}", Numbers.text(cell.x())), cell.seed());
    }

    /**
     * Requests per second between two fractions of all ends, in the order of the ends, as the artifact counts. It is
     * more than a steady rate where the host holds most of the requests: they are prefilled before the first of them
     * ends.
     */
    private static double artifactThroughput(OpenLoop run) {
        long[] ends = run.requests().stream()
                .mapToLong(RequestTimes::endedAt)
                .sorted()
                .toArray();
        int first = (int) Math.round(ends.length * FIRST_END);
        int last = (int) Math.round(ends.length * LAST_END);
        return (last - first) * 1e9 / (ends[last] - ends[first]);
    }

    private SimulatedEngine engine(ComparedSystem of) {
        return PanelEngine.of(panel, of, cell.fidelity(), profile(of), model).engine(cell.seed());
    }

    private Profile profile(ComparedSystem of) {
        return Hardware.named(panel.setting().hardware())
                .withHostAttention(of.hostAttention())
                .profile(model);
    }

    private boolean isHybrid() {
        return PanelEngine.strategy(system, cell.fidelity()).offloads();
    }

    private CostModel cost() {
        return new CostModel(profile(system));
    }

    private double attentionSeconds(int batch) {
        long tokens = (long) batch * ATTENTION_CONTEXT;
        return isHybrid() ? cost().cpuAttention(batch, tokens) : cost().gpuAttention(tokens);
    }

    private Point speedup() {
        if (!isHybrid()) {
            return point(cell.x(), SpeedupFormula.of(cost(), panel, workload()).product());
        }
        ComparedSystem baseline = new ComparedSystem("gpu-only", "gpu-only", 1, system.x());
        OpenLoop run = atOnce(engine(system));
        return point(cell.x(), requestsPerSecond(run) / requestsPerSecond(atOnce(engine(baseline))) - 1, run);
    }
}
