package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RateSearch;
import dev.tandem.bench.load.Requirement;
import dev.tandem.bench.load.TraceFile;
import dev.tandem.bench.report.LoadReport;
import dev.tandem.bench.report.Plot;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.function.Function;
import picocli.CommandLine.Option;

/** Options of an open loop: when requests arrive, which of them are measured, and what the result has. */
@Section(Section.Heading.COMMAND)
final class LoadOptions {
    private static final String TRACE = "trace:";

    @Option(
            names = "--request-rate",
            split = ",",
            paramLabel = "RATE",
            description = "Requests that arrive per second, whatever is still running; several rates, with commas, are"
                    + " run one after another. inf sends all requests at once."
                    + " Default: inf in serve, no open loop in simulate.")
    List<String> rates = List.of();

    @Option(
            names = "--arrivals",
            paramLabel = "KIND",
            defaultValue = "poisson",
            description = "poisson, constant, or trace:FILE with one time per line; trace:azure-code and"
                    + " trace:azure-conv are those of the workloads. A rate scales the times of a trace."
                    + " Default: ${DEFAULT-VALUE}.")
    String arrivals = "poisson";

    @Option(
            names = "--burstiness",
            paramLabel = "SHAPE",
            defaultValue = "1",
            description =
                    "Shape of a gamma distribution of the intervals: below 1 requests come in bursts, above 1 more"
                            + " evenly; 1 is Poisson. Default: ${DEFAULT-VALUE}.")
    double burstiness = 1;

    @Option(
            names = "--think-time",
            paramLabel = "SECONDS",
            defaultValue = "10",
            description = "Mean seconds between the end of a conversation's turn and the arrival of its next one, in"
                    + " workloads with turns; the times are exponential, and --request-rate counts conversations."
                    + " Default: ${DEFAULT-VALUE}.")
    double thinkTime = 10;

    @Option(
            names = "--duration",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description =
                    "Requests that arrive in this time after the warm-up are measured." + " Default: ${DEFAULT-VALUE}.")
    double duration = 60;

    @Option(
            names = "--cool-down",
            paramLabel = "SECONDS",
            defaultValue = "0",
            description = "Seconds after the measured ones in which requests still arrive, so that measured requests"
                    + " end under the same load. Default: ${DEFAULT-VALUE}.")
    double coolDown;

    @Option(
            names = "--max-drain",
            paramLabel = "SECONDS",
            defaultValue = "600",
            description = "Max seconds after the last arrival in which measured requests may end; others count as"
                    + " unfinished. Default: ${DEFAULT-VALUE}.")
    double maxDrain = 600;

    @Option(
            names = "--goodput",
            arity = "1..*",
            paramLabel = "METRIC:MS",
            description = "Max latencies of a request that counts as goodput, as ttft:200 tpot:50 e2el:5000."
                    + " Default: none, each completed request counts.")
    List<String> goodput = List.of();

    @Option(
            names = "--find-rate",
            paramLabel = "REQUIREMENT",
            description = "Search the highest rate at which this holds and no request fails: goodput>=0.9, or another"
                    + " number of the result, as p99_ttft_ms<=500. The search begins at --request-rate, or at 1."
                    + " A run in which the client was the bottleneck is repeated once."
                    + " Default: no search.")
    Optional<String> findRate = Optional.empty();

    @Option(
            names = "--percentile-metrics",
            split = ",",
            paramLabel = "METRIC",
            defaultValue = "ttft,tpot,itl,e2el,latency_per_token",
            description = "Latencies that the result has. Default: ${DEFAULT-VALUE}.")
    List<String> metrics = List.of();

    @Option(
            names = "--metric-percentiles",
            split = ",",
            paramLabel = "PERCENT",
            defaultValue = "90,99",
            description = "Percentiles of each latency, besides mean and median. Default: ${DEFAULT-VALUE}.")
    List<Double> percentiles = List.of();

    @Option(
            names = "--report",
            paramLabel = "FILE",
            description = "Write an HTML file with tables and plots of all rates. Default: none.")
    Optional<Path> report = Optional.empty();

    @Option(
            names = "--plot-dir",
            paramLabel = "DIR",
            description = "Write each plot as an SVG file into this directory. Default: none.")
    Optional<Path> plotDir = Optional.empty();

    /**
     * What was measured.
     *
     * @param results one per rate, or that of the rate found
     * @param all these, and those of the other rates of a search
     */
    record Measured(List<Map<String, Object>> results, List<Map<String, Object>> all) {}

    /** @throws ConfigurationException that names the option, its value and the limit */
    void check() {
        report.ifPresent(file -> OutputFile.check("--report", file));
        plotDir.ifPresent(folder -> OutputFile.check("--plot-dir", folder.resolve("ttft.svg")));
        targets();
        requirement();
        metrics();
        seconds("--think-time", thinkTime);
        if (percentiles.stream().anyMatch(percent -> !(percent > 0 && percent <= 100))) {
            throw new ConfigurationException("--metric-percentiles " + percentiles + " must lie in (0, 100]");
        }
        if (findRate.isPresent() && rates.size() > 1) {
            throw new ConfigurationException(
                    "--find-rate begins at one rate, and --request-rate has " + rates.size() + "; name one");
        }
    }

    /** @throws ConfigurationException when options hold for one strategy alone */
    void checkForSeveral() {
        String one = report.isPresent() ? "--report" : plotDir.isPresent() ? "--plot-dir" : "";
        if (!one.isEmpty()) {
            throw new ConfigurationException(one + " has the loads of one strategy, and --strategy is a list; run the"
                    + " strategies one by one, each with a file of its own");
        }
    }

    /** Whether any option asks for an open loop. */
    boolean isOpen() {
        return !rates.isEmpty() || findRate.isPresent() || arrivals.startsWith(TRACE);
    }

    /**
     * The arrivals of each run.
     *
     * @throws ConfigurationException that names the option and its value
     */
    private List<Arrivals> arrivals() {
        if (arrivals.startsWith(TRACE)) {
            Arrivals.Trace trace = TraceFile.read(arrivals.substring(TRACE.length()));
            checkNotBursty();
            return rates.isEmpty()
                    ? List.of(trace)
                    : rates.stream().map(rate -> trace.atRate(rate(rate))).toList();
        }
        if (rates.isEmpty()) {
            return List.of(findRate.isPresent() ? arrivals(1) : new Arrivals.AtOnce());
        }
        return rates.stream().map(rate -> arrivals(rate(rate))).toList();
    }

    private Arrivals arrivals(double rate) {
        if (rate == Double.POSITIVE_INFINITY) {
            return new Arrivals.AtOnce();
        }
        return switch (arrivals) {
            case "poisson" -> burstiness == 1 ? new Arrivals.Poisson(rate) : new Arrivals.Gamma(rate, burstiness);
            case "constant" -> {
                checkNotBursty();
                yield new Arrivals.Constant(rate);
            }
            default ->
                throw new ConfigurationException(
                        "--arrivals " + arrivals + " is not known; use poisson, constant or trace:FILE");
        };
    }

    private void checkNotBursty() {
        if (burstiness != 1) {
            throw new ConfigurationException("--burstiness " + burstiness + " shapes random intervals and --arrivals "
                    + arrivals + " has none; leave one of them out");
        }
    }

    private static double rate(String text) {
        if (text.strip().equals("inf")) {
            return Double.POSITIVE_INFINITY;
        }
        try {
            return Double.parseDouble(text.strip());
        } catch (NumberFormatException e) {
            throw new ConfigurationException("--request-rate " + text + " must be a number above 0, or inf");
        }
    }

    /**
     * The measured window.
     *
     * @param requests when present, all of this many requests are measured, whenever they arrive
     */
    LoadWindow window(Optional<Integer> requests, double warmUp) {
        Duration drain = seconds("--max-drain", maxDrain);
        return requests.<LoadWindow>map(number -> new LoadWindow.Requests(number, drain))
                .orElseGet(() -> new LoadWindow.Timed(
                        seconds("--warm-up", warmUp),
                        seconds("--duration", duration),
                        seconds("--cool-down", coolDown),
                        drain));
    }

    private static Duration seconds(String option, double seconds) {
        if (!(seconds >= 0 && seconds <= 1e9)) {
            throw new ConfigurationException(option + " " + seconds + " must be a number of seconds, 0 or more");
        }
        return Duration.ofNanos((long) (seconds * 1e9));
    }

    private GoodputTargets targets() {
        return GoodputTargets.parse(goodput);
    }

    /** The requirement of a search; its key must be one that these options put into results. */
    private Optional<Requirement> requirement() {
        return findRate.map(text -> Requirement.parse(
                text,
                LoadResult.of(new Load(new Arrivals.AtOnce(), window(Optional.of(1), 0), targets(), 0), List.of())
                        .toMap(metrics(), percentiles)
                        .keySet()));
    }

    private List<Metric> metrics() {
        return metrics.stream().map(Metric::of).toList();
    }

    /**
     * Measures a load at each rate, or searches the highest rate that meets the requirement.
     *
     * @param seed of the arrivals
     * @param progress receives a line for each rate of a search
     * @param measure runs one load
     */
    Measured run(LoadWindow window, long seed, PrintStream progress, Function<Load, Map<String, Object>> measure) {
        List<Load> loads = arrivals().stream()
                .map(arrivals -> new Load(arrivals, window, targets(), seed, thinkTime))
                .toList();
        if (loads.stream().anyMatch(load -> load.arrivals() instanceof Arrivals.AtOnce)
                && window instanceof LoadWindow.Timed) {
            throw new ConfigurationException("--request-rate inf needs a number of requests: --requests in simulate,"
                    + " --num-prompts in serve");
        }
        Optional<Requirement> requirement = requirement();
        if (requirement.isPresent()) {
            return search(requirement.get(), loads.getFirst(), progress, measure);
        }
        List<Map<String, Object>> results = loads.stream().map(measure).toList();
        return new Measured(results, results);
    }

    private static Measured search(
            Requirement requirement, Load load, PrintStream progress, Function<Load, Map<String, Object>> measure) {
        RateSearch<Map<String, Object>> search = new RateSearch<>(requirement::holds, rate -> {
            Map<String, Object> result = validResult(load.atRate(rate), rate, progress, measure);
            progress.println(Statistics.rounded(rate) + " requests/s: " + requirement.key() + " "
                    + result.get(requirement.key()) + (requirement.holds(result) ? ", holds" : ", fails"));
            return result;
        });
        OptionalDouble highest =
                search.highest(load.arrivals().requestsPerSecond().orElse(1));
        if (highest.isEmpty()) {
            throw new ConfigurationException("--find-rate " + requirement + " has the same answer at every rate from "
                    + Statistics.rounded(search.measured().firstKey()) + " to "
                    + Statistics.rounded(search.measured().lastKey()) + " requests/s; choose another bound");
        }
        Map<String, Object> result =
                Objects.requireNonNull(search.measured().get(highest.getAsDouble()), "a rate that was measured");
        result.put("requirement", requirement.toString());
        return new Measured(List.of(result), List.copyOf(search.measured().values()));
    }

    /**
     * Measures a rate of a search, and once more if the client was the bottleneck: such a run says nothing about the
     * server, so it must not decide.
     *
     * @throws ConfigurationException when the second run is no better
     */
    private static Map<String, Object> validResult(
            Load load, double rate, PrintStream progress, Function<Load, Map<String, Object>> measure) {
        Map<String, Object> result = measure.apply(load);
        if (!Boolean.FALSE.equals(result.get("valid"))) {
            return result;
        }
        progress.println(Statistics.rounded(rate) + " requests/s: the run is invalid, so it is repeated");
        Map<String, Object> again = measure.apply(load);
        if (Boolean.FALSE.equals(again.get("valid"))) {
            throw new ConfigurationException("--find-rate: both runs at " + Statistics.rounded(rate)
                    + " requests/s are invalid, because the client was the bottleneck; run it on a machine of its own,"
                    + " or begin at a lower --request-rate");
        }
        return again;
    }

    /** Writes the files that the options ask for. */
    void writeReports(Measured measured, String command) throws IOException {
        LoadReport pages = new LoadReport(measured.all());
        if (report.isPresent()) {
            Path file = report.get().toAbsolutePath();
            Files.createDirectories(file.getParent());
            Files.writeString(file, pages.html("Load", command));
        }
        if (plotDir.isPresent()) {
            Files.createDirectories(plotDir.get());
            for (Map.Entry<String, Plot> plot : pages.plots().entrySet()) {
                Files.writeString(
                        plotDir.get().resolve(plot.getKey() + ".svg"),
                        plot.getValue().svg());
            }
        }
    }

    /** The fields of a load's result. */
    Map<String, Object> describe(Load load, LoadResult measured) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("window", "open");
        result.put("arrivals", load.arrivals().describe());
        OptionalDouble rate = load.arrivals().requestsPerSecond();
        result.put("request_rate", rate.isPresent() ? Statistics.rounded(rate.getAsDouble()) : "inf");
        result.put("seed", load.seed());
        if (!goodput.isEmpty()) {
            result.put("goodput", String.join(" ", goodput));
        }
        result.putAll(measured.toMap(metrics(), percentiles));
        return result;
    }
}
