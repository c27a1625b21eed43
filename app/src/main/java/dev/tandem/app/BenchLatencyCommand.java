package dev.tandem.app;

import dev.tandem.bench.Recorder;
import dev.tandem.bench.Statistics;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.Usage;
import dev.tandem.model.config.ModelConfig;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code bench latency}. */
@Command(
        name = "latency",
        mixinStandardHelpOptions = true,
        description = {
            "Time of one batch, prefill and decode apart, beside what the machine reads and computes at most,",
            "measured in turn with the batches."
        })
final class BenchLatencyCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options;

    @Mixin
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(names = "--batch-size", defaultValue = "1", description = "Requests together (${DEFAULT-VALUE}).")
    int batchSize;

    @Option(names = "--input-len", defaultValue = "512", description = "Prompt tokens of each (${DEFAULT-VALUE}).")
    int inputLength;

    @Option(names = "--output-len", defaultValue = "128", description = "Output tokens of each (${DEFAULT-VALUE}).")
    int outputLength;

    @Option(names = "--num-iters", defaultValue = "5", description = "Measured batches (${DEFAULT-VALUE}).")
    int iterations;

    @Option(names = "--num-iters-warmup", defaultValue = "3", description = "Batches before (${DEFAULT-VALUE}).")
    int warmUpIterations;

    private record Batch(double prefillSeconds, double decodeSeconds, double totalSeconds) {}

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
        List<Batch> batches = new ArrayList<>();
        List<Limits> limits = new ArrayList<>();
        try (EngineAssembly assembly = EngineAssembly.start(options, false, false, new Recorder(), System.err)) {
            SplittableRandom random = new SplittableRandom(options.seed);
            for (int i = 0; i < warmUpIterations; i++) {
                run(assembly.engine(), random, "warm-up-" + i);
            }
            for (int i = 0; i < iterations; i++) {
                if (!options.gpu.chosen()) {
                    limits.add(cpuLimits());
                }
                batches.add(run(assembly.engine(), random, "batch-" + i));
                terminal.count("batches", i + 1, iterations);
            }
            Map<String, Object> result = BenchReport.circumstances(
                    options,
                    assembly.checkpoint().name(),
                    spec.commandLine().getParseResult().originalArgs());
            result.put("window", "latency");
            describe(result, assembly, batches);
            if (!limits.isEmpty()) {
                compare(result, limits);
            }
            report.write(result);
        }
        return 0;
    }

    /** What the CPU reads and computes at most, in GB/s and GFLOP/s. */
    private record Limits(double read, double multiplyAdd) {}

    private Limits cpuLimits() {
        int threads = options.threads.orElse(Runtime.getRuntime().availableProcessors());
        try (MachineProbe probe = new MachineProbe(threads, Clock.system())) {
            return new Limits(probe.readGigabytesPerSecond(), probe.fmaGigaflops());
        }
    }

    private static void compare(Map<String, Object> result, List<Limits> limits) {
        double peakBandwidth =
                Statistics.median(limits.stream().mapToDouble(Limits::read).toArray());
        double peak = Statistics.median(
                limits.stream().mapToDouble(Limits::multiplyAdd).toArray());
        result.put("machine_read_gbps", Statistics.rounded(peakBandwidth));
        result.put(
                "share_of_read_bandwidth",
                Statistics.rounded((double) result.get("weights_read_gbps") / peakBandwidth));
        result.put("machine_fma_gflops", Statistics.rounded(peak));
        result.put("share_of_fma_peak", Statistics.rounded((double) result.get("prefill_gflops") / peak));
    }

    private void describe(Map<String, Object> result, EngineAssembly assembly, List<Batch> batches) {
        result.put("batch_size", batchSize);
        result.put("input_len", inputLength);
        result.put("output_len", outputLength);
        Statistics.put(
                result,
                "latency",
                batches.stream().mapToDouble(b -> b.totalSeconds() * 1e3).toArray());
        double prefill = Statistics.median(
                batches.stream().mapToDouble(Batch::prefillSeconds).toArray());
        double decode = Statistics.median(
                batches.stream().mapToDouble(Batch::decodeSeconds).toArray());
        result.put("prefill_tokens_per_second", Statistics.rounded(batchSize * inputLength / prefill));
        int steps = outputLength - 1;
        result.put("ttft_ms", Statistics.rounded(prefill * 1e3));
        result.put("decode_step_ms", Statistics.rounded(decode * 1e3 / (outputLength - 1)));
        result.put("decode_tokens_per_second", Statistics.rounded(batchSize * steps / decode));
        double weights = assembly.weightBytes() * steps / decode / 1e9;
        result.put("weights_read_gbps", Statistics.rounded(weights));
        double flops = prefillFlops(assembly.checkpoint().config()) * batchSize / prefill / 1e9;
        result.put("prefill_gflops", Statistics.rounded(flops));
    }

    /** Matrix products of every token, the output head of the last, and causal attention. */
    private double prefillFlops(ModelConfig config) {
        double head = (double) config.vocabulary() * config.hidden();
        double linear = 2 * (config.decodeWeights() - head) * inputLength;
        double attention = 2.0 * config.layers() * config.heads() * config.headDim() * inputLength * inputLength;
        return linear + 2 * head + attention;
    }

    private Batch run(Engine engine, SplittableRandom random, String name) throws InterruptedException {
        BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
        List<Request> requests = new ArrayList<>();
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(outputLength)
                .ignoreEos(true)
                .build();
        for (int i = 0; i < batchSize; i++) {
            int[] prompt =
                    random.ints(inputLength, 3, engine.limits().vocabulary()).toArray();
            requests.add(new Request(name + "-" + i, prompt, sampling, 0, TextDecoder.none(), event -> {
                switch (event) {
                    case TokenEvent.Token token -> {}
                    case TokenEvent.Finished finished -> ends.add(finished.usage());
                    case TokenEvent.Failed failed -> ends.add(failed.message());
                }
            }));
        }
        engine.submit(requests);
        double prefill = 0;
        double total = 0;
        for (int i = 0; i < batchSize; i++) {
            switch (ends.take()) {
                case Usage usage -> {
                    prefill = Math.max(prefill, usage.timeToFirstToken() / 1e9);
                    total = Math.max(total, usage.total() / 1e9);
                }
                case Object failure -> throw new ExecutorException("the batch failed: " + failure);
            }
        }
        return new Batch(prefill, total - prefill, total);
    }
}
