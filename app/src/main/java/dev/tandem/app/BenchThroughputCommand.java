package dev.tandem.app;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.ThroughputRun;
import dev.tandem.bench.Workload;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench throughput}. */
@Command(
        name = "throughput",
        mixinStandardHelpOptions = true,
        description = "Measures tokens per second on a workload: all requests arrive at time 0 and run to the end, or,"
                + " with --steady, each request that finishes is replaced during a window.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench throughput --workload synthetic:128/128 --requests 32 --json",
            "  tandem bench throughput my-model/ --workload osc --steady 30 --strategy adaptive"
        })
final class BenchThroughputCommand implements Callable<Integer>, StrategyComparison.Benchmark {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    WorkloadOptions workload = new WorkloadOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Mixin
    ThroughputOptions window = new ThroughputOptions();

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
    public List<Map<String, Object>> measure() throws InterruptedException {
        window.check();
        workload.check(window.steady.isPresent());
        report.check();
        Workload work = workload.workload(options.seed).ofSingleRequests("bench simulate --request-rate has them");
        Recorder recorder = new Recorder();
        Terminal terminal = Terminal.standardError();
        try (EngineAssembly assembly = BenchReport.start(options, recorder)) {
            ThroughputRun run =
                    new ThroughputRun(assembly.engine(), recorder, Clock.system(), work, options.seed, terminal::count);
            run.warmUp(Math.min(8, options.maxNumSeqs()), 64, 32);
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    assembly.checkpoint().name(),
                    spec.commandLine().getParseResult().originalArgs());
            result.put("workload", workload.name);
            options.strategy.describe(result);
            result.put("gpu_kv_bytes", assembly.engine().limits().gpuKvBytes());
            MachineUse before = MachineUse.measure(options, assembly);
            int concurrency = concurrency(options, assembly.engine().limits(), work);
            Map<String, Object> measured = window.steady.isPresent()
                    ? run.steady(workload.first(concurrency), window.warmUp, window.steady.get())
                    : run.whole(window.requests);
            result.putAll(measured);
            holdAgainstIdeal(result, assembly, work);
            assembly.cost().ifPresent(cost -> BenchReport.addPredictions(result, cost));
            workload.explain(assembly.decisions(), System.err);
            double seconds = (double) Objects.requireNonNull(measured.get("duration"), "duration of the run");
            double steps = recorder.steps() / seconds;
            double read = assembly.weightBytes() * steps / 1e9;
            before.compare(MachineUse.measure(options, assembly), read, result);
            return List.of(result);
        }
    }

    /** Measures the machine's profile where the cache has none, so that gpu-only, too, is held against the ideal. */
    @Override
    public void prepare() {
        window.check();
        workload.check(window.steady.isPresent());
        report.check();
        options.check();
        StartLog log = new StartLog(System.err, true);
        if (options.gpu.chosen()
                && options.strategy.profile.isEmpty()
                && EngineAssembly.cachedProfile(options, log).isEmpty()) {
            EngineAssembly.profile(options, log);
        }
    }

    /** On the CPU both tiers share the same cores, so there is no ideal with a host tier. */
    private void holdAgainstIdeal(Map<String, Object> result, EngineAssembly assembly, Workload work) {
        if (!options.gpu.chosen()) {
            return;
        }
        Optional<Profile> profile = assembly.measuredProfile(options);
        if (profile.isEmpty()) {
            System.err.println("note: The result has no share_of_ideal: this machine has no profile with this model."
                    + " Measure one with tandem profile, or compare strategies in one run, as --strategy"
                    + " gpu-only,adaptive.");
            return;
        }
        try {
            ProfileIdeal.complete(
                    result, options, profile.get(), assembly.engine().limits(), work, CudaBackend.defaultHostTier());
        } catch (IllegalArgumentException e) { // the run has measured all the same: its requests were cut to the pool
            System.err.println("note: The result has no share_of_ideal: " + e.getMessage() + ".");
        }
    }

    /** Number of requests that keeps the pools full: as many as they hold, plus two; at most --max-num-seqs. */
    static int concurrency(ModelOptions options, ExecutorLimits limits, Workload work) {
        long gpu = (long) limits.gpuBlocks() * limits.blockTokens();
        long host = !options.strategy.chosen().offloads() ? 0 : (long) limits.hostBlocks() * limits.hostBlockTokens();
        double held = (gpu + host) / work.meanTokensHeld(limits.span());
        return (int) Math.min(options.maxNumSeqs(), Math.ceil(held) + 2);
    }
}
