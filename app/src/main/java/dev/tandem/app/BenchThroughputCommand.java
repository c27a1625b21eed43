package dev.tandem.app;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.Statistics;
import dev.tandem.bench.ThroughputRun;
import dev.tandem.bench.Workload;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
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
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--workload",
            defaultValue = "synthetic:128/128",
            description = "synthetic:IN/OUT, osc, osc:MEAN_OUT, azure-code, azure-conv or reasoning (${DEFAULT-VALUE}).")
    String workload;

    @Option(names = "--requests", defaultValue = "32", description = "Requests of a whole run (${DEFAULT-VALUE}).")
    int requests;

    @Option(names = "--steady", description = "Measure a steady window of this many seconds instead of a whole run.")
    Optional<Integer> steady = Optional.empty();

    @Option(names = "--warm-up", defaultValue = "5", description = "Seconds before the steady window (${DEFAULT-VALUE}).")
    int warmUp;

    @Override
    public Integer call() throws InterruptedException, IOException {
        if (requests < 1 || steady.orElse(1) < 1) {
            throw new IllegalArgumentException("--requests and --steady must be at least 1");
        }
        Workload work = Workload.parse(workload, options.seed);
        Recorder recorder = new Recorder();
        Terminal terminal = Terminal.standardError();
        try (EngineAssembly assembly = EngineAssembly.start(options, false, recorder, System.err)) {
            ThroughputRun run = new ThroughputRun(
                    assembly.engine(), recorder, Clock.system(), work, options.seed, terminal::count);
            run.warmUp(Math.min(8, options.maxNumSeqs), 64, 32);
            Map<String, Object> result = BenchReport.circumstances(
                    options, assembly.checkpoint().name(), spec.commandLine().getParseResult().originalArgs());
            result.put("workload", workload);
            result.put("strategy", "gpu-only");
            double before = read();
            Map<String, Object> measured = steady.isPresent()
                    ? run.steady(options.maxNumSeqs, warmUp, steady.get())
                    : run.whole(requests);
            result.putAll(measured);
            result.put("ratio_to_gpu_only", 1.0);
            double steps = recorder.steps() / ((double) measured.get("duration"));
            result.put("weights_read_gbps", Statistics.rounded(assembly.weightBytes() * steps / 1e9));
            result.put("machine_read_gbps", Statistics.rounded((before + read()) / 2));
            report.write(result);
        }
        return 0;
    }

    /** The engine rests meanwhile: nothing is submitted. */
    private double read() {
        int threads = options.threads.orElse(Runtime.getRuntime().availableProcessors());
        try (MachineProbe probe = new MachineProbe(threads, Clock.system())) {
            return probe.readGigabytesPerSecond();
        }
    }
}
