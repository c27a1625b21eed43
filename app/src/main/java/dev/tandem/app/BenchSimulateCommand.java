package dev.tandem.app;

import dev.tandem.bench.SimulatedExecutor;
import dev.tandem.bench.SimulatedRun;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.TimingErrors;
import dev.tandem.bench.Workload;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.model.Checkpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.function.Function;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench simulate}. */
@Command(
        name = "simulate",
        mixinStandardHelpOptions = true,
        description = "Predicts throughput on another machine from its profile: the real scheduler runs over an"
                + " executor that only counts time. It is optimistic: copies over the link cost the GPU nothing, and"
                + " only the CPU's queue makes results late.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench simulate --profile my-profile.txt --preset h200-8sm-2req --workload osc --strategy neo",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --strategy gpu-only,neo,apex",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --requests 100 --json",
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --request-rate 5,10,15 --duration 300"
        })
final class BenchSimulateCommand implements Callable<Integer>, StrategyComparison.Benchmark {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    WorkloadOptions workload = new WorkloadOptions();

    @Mixin
    SimulationOptions simulation = new SimulationOptions();

    @Mixin
    LoadOptions load = new LoadOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Override
    public ModelOptions options() {
        return options;
    }

    @Override
    public BenchReport report() {
        return report;
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        StrategyComparison.run(this, spec.commandLine().getParseResult().originalArgs());
        return 0;
    }

    @Override
    public List<Map<String, Object>> measure() throws IOException {
        simulation.check();
        load.check();
        report.check();
        options.check();
        Path file = simulation.profile(options);
        Profile profile = Profile.parse(Files.readString(file), file.toString());
        options.gpu.device = "cuda";
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            ExecutorLimits limits = SimulationOptions.limits(options, checkpoint.config(), profile);
            Workload work = workload.workload(options.seed);
            Simulator simulator = new Simulator(profile, limits, config(checkpoint, limits), work, checkpoint.name());
            if (load.isOpen()) {
                LoadWindow window = load.window(simulation.requests, simulation.warmUp);
                LoadOptions.Measured measured = load.run(
                        window, options.seed, System.err, one -> simulator.run(run -> describe(one, run.open(one))));
                List<String> arguments = spec.commandLine().getParseResult().originalArgs();
                load.writeReports(measured, "tandem " + String.join(" ", arguments));
                return measured.results();
            }
            int concurrency = BenchThroughputCommand.concurrency(options, limits, work);
            return List.of(simulator.run(run -> simulation.requests.isPresent()
                    ? run.whole(simulation.requests.get())
                    : run.steady(concurrency, simulation.warmUp, simulation.steady)));
        }
    }

    @Override
    public void checkForSeveral() {
        load.checkForSeveral();
    }

    private EngineConfig config(Checkpoint checkpoint, ExecutorLimits limits) {
        int context = (int)
                Math.min(options.contextTokens(checkpoint.config()), (long) limits.gpuBlocks() * limits.blockTokens());
        options.strategy.chosen().check(limits, context);
        return new EngineConfig(options.budget(), Set.of(), context, Integer.MAX_VALUE, options.seed);
    }

    private Map<String, Object> describe(Load one, SimulatedRun.OpenLoop open) {
        Map<String, Object> result = load.describe(one, open.load());
        result.put("host_token_fraction", Statistics.rounded(open.hostTokenFraction()));
        result.put("host_busy_fraction", Statistics.rounded(open.hostBusyFraction()));
        return result;
    }

    /** Simulates runs one after another, each from the engine's start. */
    private final class Simulator {
        private final Profile profile;
        private final ExecutorLimits limits;
        private final EngineConfig config;
        private final Workload work;
        private final String model;
        private boolean summarised;

        Simulator(Profile profile, ExecutorLimits limits, EngineConfig config, Workload work, String model) {
            this.profile = profile;
            this.limits = limits;
            this.config = config;
            this.work = work;
            this.model = model;
        }

        Map<String, Object> run(Function<SimulatedRun, Map<String, Object>> measure) {
            StartLog log = new StartLog(System.err, true);
            boolean guarded = options.strategy.guard.orElse(false);
            Scheduling scheduling = Scheduling.of(options, config.budget(), guarded, limits, () -> profile, log);
            if (!summarised) {
                summarised = true;
                StartSummary.memory(limits, log);
                log.printSummary();
            }
            VirtualClock clock = new VirtualClock();
            SimulatedExecutor executor =
                    SimulatedExecutor.withErrors(limits, profile, clock, TimingErrors.parse(simulation.error));
            simulation.loseHostAt.ifPresent(executor::loseHostAt);
            if (!options.strategy.deviations().has(Deviation.SPREAD_HOST_TOKENS)) {
                executor.computeOccupiedLayersOnly();
            }
            Map<String, Object> result = BenchReport.circumstances(
                    options, model, spec.commandLine().getParseResult().originalArgs());
            result.put("machine", "simulated: " + profile.name());
            result.put("workload", work.name());
            options.strategy.describe(result);
            result.put("gpu_kv_bytes", limits.gpuKvBytes());
            result.putAll(measure.apply(new SimulatedRun(config, scheduling.scheduler(), executor, clock, work)));
            if (result.containsKey("output_tokens_per_second")) { // an open loop below saturation has no ideal rate
                ProfileIdeal.complete(result, options, profile, limits, work, 0);
            }
            scheduling.cost().ifPresent(cost -> result.put("prediction_error", Statistics.rounded(cost.error())));
            workload.explain(scheduling.decisions(), System.err);
            return result;
        }
    }
}
