package dev.tandem.app;

import dev.tandem.bench.LatencyRun;
import dev.tandem.bench.Recorder;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Runs {@code bench latency}. */
@Command(
        name = "latency",
        mixinStandardHelpOptions = true,
        description = "Measures one batch after another, prefill and decode apart. On the CPU it also measures, in turn"
                + " with the batches, how much the machine reads and computes at most.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench latency --batch-size 8",
            "  tandem bench latency my-model/ --input-len 2000 --output-len 200 --json"
        })
final class BenchLatencyCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(names = "--batch-size", defaultValue = "1", description = "Requests per batch. Default: ${DEFAULT-VALUE}.")
    int batchSize;

    @Option(
            names = "--input-len",
            defaultValue = "512",
            description = "Prompt tokens per request. Default: ${DEFAULT-VALUE}.")
    int inputLength;

    @Option(
            names = "--output-len",
            defaultValue = "128",
            description = "Output tokens per request. Default: ${DEFAULT-VALUE}.")
    int outputLength;

    @Option(names = "--num-iters", defaultValue = "5", description = "Measured batches. Default: ${DEFAULT-VALUE}.")
    int iterations;

    @Option(
            names = "--num-iters-warmup",
            defaultValue = "3",
            description = "Batches before the measured ones. Default: ${DEFAULT-VALUE}.")
    int warmUpIterations;

    @Override
    public Integer call() throws InterruptedException, IOException {
        if (batchSize < 1 || inputLength < 1 || outputLength < 2 || iterations < 1 || warmUpIterations < 0) {
            throw new ConfigurationException(
                    "--batch-size " + batchSize + ", --input-len " + inputLength + ", --output-len " + outputLength
                            + ", --num-iters " + iterations
                            + " and --num-iters-warmup " + warmUpIterations
                            + ": they must be at least 1, --output-len at least 2, --num-iters-warmup at least 0");
        }
        report.check();
        Terminal terminal = Terminal.standardError();
        LatencyRun.Shape shape = new LatencyRun.Shape(batchSize, inputLength, outputLength);
        List<LatencyRun.Batch> batches = new ArrayList<>();
        List<LatencyReport.Peak> peaks = new ArrayList<>();
        try (EngineAssembly assembly = BenchReport.start(options, new Recorder())) {
            LatencyRun run = new LatencyRun(assembly.engine(), shape, options.seed);
            for (int i = 0; i < warmUpIterations; i++) {
                terminal.count("warm-up batches", i, warmUpIterations);
                run.run("warm-up-" + i);
            }
            terminal.count("batches", 0, iterations);
            for (int i = 0; i < iterations; i++) {
                if (!options.gpu.chosen()) {
                    peaks.add(LatencyReport.Peak.measure(options));
                }
                batches.add(run.run("batch-" + i));
                terminal.count("batches", i + 1, iterations);
            }
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    assembly.checkpoint().name(),
                    spec.commandLine().getParseResult().originalArgs());
            LatencyReport.describe(result, assembly, shape, batches, peaks);
            report.write(result);
        }
        return 0;
    }
}
