package dev.tandem.app;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.ThroughputRun;
import dev.tandem.bench.Workload;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.strategy.select.Strategy;
import java.io.IOException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code bench throughput}. */
@Command(
        name = "throughput",
        mixinStandardHelpOptions = true,
        description = {
            "Tokens a second on a workload: everything at time 0 until the last request has finished, or, with",
            "--steady, a window during which each finished request is replaced."
        })
final class BenchThroughputCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options;

    @Mixin
    WorkloadOptions workload;

    @Mixin
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(names = "--requests", defaultValue = "32", description = "Requests of a whole run (${DEFAULT-VALUE}).")
    int requests;

    @Option(names = "--steady", description = "Measure a steady window of this many seconds instead of a whole run.")
    Optional<Integer> steady = Optional.empty();

    @Option(
            names = "--warm-up",
            defaultValue = "5",
            description = "Seconds before the steady window (${DEFAULT-VALUE}).")
    int warmUp;

    @Override
    public Integer call() throws InterruptedException, IOException {
        if (requests < 1 || steady.orElse(1) < 1 || warmUp < 0) {
            throw new ConfigurationException("--requests " + requests
                    + steady.map(seconds -> ", --steady " + seconds).orElse("")
                    + " and --warm-up " + warmUp + ": they must be at least 1, --warm-up at least 0");
        }
        report.check();
        Workload work = workload.workload(options.seed);
        Recorder recorder = new Recorder();
        Terminal terminal = Terminal.standardError();
        try (EngineAssembly assembly = EngineAssembly.start(options, false, false, recorder, System.err)) {
            ThroughputRun run =
                    new ThroughputRun(assembly.engine(), recorder, Clock.system(), work, options.seed, terminal::count);
            run.warmUp(Math.min(8, options.maxNumSeqs()), 64, 32);
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    assembly.checkpoint().name(),
                    spec.commandLine().getParseResult().originalArgs());
            result.put("workload", workload.name);
            result.put("strategy", options.strategy.chosen().flag());
            Optional<Double> before = cpuRead();
            Optional<double[]> gpuBefore = assembly.gpuTime();
            Map<String, Object> measured = steady.isPresent()
                    ? run.steady(concurrency(options, assembly.engine().limits(), work), warmUp, steady.get())
                    : run.whole(requests);
            result.putAll(measured);
            if (options.strategy.chosen() == Strategy.GPU_ONLY) {
                result.put("ratio_to_gpu_only", 1.0);
            }
            assembly.cost().ifPresent(cost -> result.put("prediction_error", Statistics.rounded(cost.error())));
            workload.explain(assembly.decisions(), System.err);
            gpuBefore.ifPresent(earlier -> {
                double[] now = assembly.gpuTime().orElseThrow();
                double idle = now[1] - earlier[1];
                result.put("gpu_idle_share", Statistics.rounded(idle / (idle + now[0] - earlier[0])));
            });
            double steps = recorder.steps() / ((double) measured.get("duration"));
            result.put("weights_read_gbps", Statistics.rounded(assembly.weightBytes() * steps / 1e9));
            before.ifPresent(first -> result.put(
                    "machine_read_gbps", Statistics.rounded((first + cpuRead().orElseThrow()) / 2)));
            report.write(result);
        }
        return 0;
    }

    /** Requests that keep the pools full: those they hold and two more, at most --max-num-seqs. */
    static int concurrency(ModelOptions options, ExecutorLimits limits, Workload work) {
        long gpu = (long) limits.gpuBlocks() * limits.blockTokens();
        long host = options.strategy.chosen() == Strategy.GPU_ONLY
                ? 0
                : (long) limits.hostBlocks() * limits.hostBlockTokens();
        double held = (gpu + host) / work.meanTokensHeld();
        return (int) Math.min(options.maxNumSeqs(), Math.ceil(held) + 2);
    }

    /** What the CPU reads at most, where it computes. The engine rests meanwhile: nothing is submitted. */
    private Optional<Double> cpuRead() {
        if (options.gpu.chosen()) {
            return Optional.empty();
        }
        int threads = options.threads.orElse(Runtime.getRuntime().availableProcessors());
        try (MachineProbe probe = new MachineProbe(threads, Clock.system())) {
            return Optional.of(probe.readGigabytesPerSecond());
        }
    }
}
