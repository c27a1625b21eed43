package dev.tandem.app;

import dev.tandem.bench.SimulatedExecutor;
import dev.tandem.bench.SimulatedRun;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.Workload;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.model.Checkpoint;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
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
            "  tandem bench simulate --profile my-profile.txt --preset h200-26k --requests 100 --json"
        })
final class BenchSimulateCommand implements Callable<Integer>, StrategyComparison.Benchmark {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    WorkloadOptions workload = new WorkloadOptions();

    @Mixin
    SimulationOptions simulation = new SimulationOptions();

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
    public Map<String, Object> measure() throws IOException {
        simulation.check();
        report.check();
        options.check();
        Path file = simulation.profile(options);
        Profile profile = Profile.parse(Files.readString(file), file.toString());
        options.gpu.device = "cuda";
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            Workload work = workload.workload(options.seed);
            ExecutorLimits limits = SimulationOptions.limits(options, checkpoint.config(), profile);
            int context = (int) Math.min(
                    options.contextTokens(checkpoint.config()), (long) limits.gpuBlocks() * limits.blockTokens());
            EngineConfig config =
                    new EngineConfig(options.budget(), Set.of(), context, Integer.MAX_VALUE, options.seed);
            options.strategy.chosen().check(limits, context);
            StartLog log = new StartLog(System.err, true);
            boolean guarded = options.strategy.guard.orElse(false);
            Scheduling scheduling = Scheduling.of(options, config.budget(), guarded, limits, () -> profile, log);
            StartSummary.memory(limits, log);
            log.printSummary();
            VirtualClock clock = new VirtualClock();
            SimulatedExecutor executor = new SimulatedExecutor(limits, new CostModel(profile), clock);
            simulation.loseHostAt.ifPresent(executor::loseHostAt);
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    checkpoint.name(),
                    spec.commandLine().getParseResult().originalArgs());
            result.put("machine", "simulated: " + profile.name());
            result.put("workload", workload.name);
            result.put("strategy", options.strategy.chosen().flag());
            result.put("gpu_kv_bytes", limits.gpuKvBytes());
            SimulatedRun run = new SimulatedRun(config, scheduling.scheduler(), executor, clock, work);
            int concurrency = BenchThroughputCommand.concurrency(options, limits, work);
            result.putAll(
                    simulation.requests.isPresent()
                            ? run.whole(simulation.requests.get())
                            : run.steady(concurrency, simulation.warmUp, simulation.steady));
            scheduling.cost().ifPresent(cost -> result.put("prediction_error", Statistics.rounded(cost.error())));
            workload.explain(scheduling.decisions(), System.err);
            return result;
        }
    }
}
