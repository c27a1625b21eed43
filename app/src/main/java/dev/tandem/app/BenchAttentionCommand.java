package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.probe.BandwidthProbe;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.cuda.tune.AttentionBenchmark;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine;

/** {@code bench attention}. */
@Command(
        name = "attention",
        mixinStandardHelpOptions = true,
        description = {
            "How near decode attention over host KV comes to reading it: for Llama-3.1-8B's grouped heads and",
            "Llama-2-7B's single ones, in turn with plain reads of the same blocks, by the workers that serve",
            "beside a GPU. No GPU is needed."
        })
final class BenchAttentionCommand implements Callable<Integer> {
    private record Shape(String name, int heads, int kvHeads, int headDim) {}

    private static final List<Shape> SHAPES =
            List.of(new Shape("gqa-32-8-128", 32, 8, 128), new Shape("mha-32-32-128", 32, 32, 128));

    /** Until the loops are compiled, and the pages there. */
    private static final Duration WARM_UP = Duration.ofMillis(1_500);

    @Mixin
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--threads",
            split = ",",
            description = "Numbers of threads, e.g. 1,8,16. Default: as serve beside a GPU, all cores but two.")
    List<Integer> threads = List.of();

    @Option(names = "--batch", description = "Rows. Default, with --context: 64 of 1,000 tokens and 8 of 16,000.")
    int batch;

    @Option(names = "--context", description = "Tokens a row.")
    int context;

    @Option(names = "--implementation", description = "One of them only, by name. Default: all that run here.")
    String implementation = "";

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "bfloat16,float16",
            description = "Storage (${DEFAULT-VALUE}).")
    List<String> dtypes = List.of();

    @Option(names = "--shape", description = "gqa-32-8-128 or mha-32-32-128. Default: both.")
    String shape = "";

    @Option(
            names = "--rounds",
            defaultValue = "7",
            description = "Rounds of roof and kernel each; medians count (${DEFAULT-VALUE}).")
    int rounds;

    private record Size(int batch, int context) {}

    @Override
    public Integer call() throws IOException {
        if (batch < 0 || context < 0 || (batch == 0) != (context == 0) || rounds < 1) {
            throw new ConfigurationException("--batch " + batch + ", --context " + context + " and --rounds " + rounds
                    + ": --batch and --context go together, and all must be positive");
        }
        report.check();
        if (threads.stream().anyMatch(count -> count < 1)) {
            throw new ConfigurationException("--threads " + threads + ": each number must be at least 1");
        }
        List<Size> sizes =
                batch > 0 ? List.of(new Size(batch, context)) : List.of(new Size(64, 1000), new Size(8, 16_000));
        List<Integer> counts = threads.isEmpty() ? List.of(CudaBackend.defaultAttentionThreads()) : threads;
        List<Map<String, Object>> results = new ArrayList<>();
        for (Shape each : SHAPES) {
            for (String dtype : dtypes) {
                for (Size size : sizes) {
                    if (shape.isEmpty() || shape.equals(each.name())) {
                        measure(each, DataType.of(dtype), size, counts, results);
                    }
                }
            }
        }
        if (results.isEmpty()) {
            throw new ConfigurationException("no --implementation '" + implementation + "' for --shape '" + shape
                    + "' runs here; shapes are gqa-32-8-128 and mha-32-32-128, implementations "
                    + String.join(", ", DecodeImplementations.names()));
        }
        write(results);
        return 0;
    }

    private void measure(
            Shape each, DataType type, Size size, List<Integer> counts, List<Map<String, Object>> results) {
        BlockFormat format = new BlockFormat(each.kvHeads(), each.headDim(), type);
        try (AttentionBenchmark benchmark = new AttentionBenchmark(
                format, each.heads(), size.batch(), size.context(), rounds, 1, WARM_UP, Clock.system())) {
            List<BandwidthProbe> readers = BandwidthProbe.all(format, each.heads());
            for (PagedDecodeAttention attention : DecodeImplementations.all(format, each.heads())) {
                if (!implementation.isEmpty() && !implementation.equals(attention.name())) {
                    continue;
                }
                for (int count : counts) {
                    var measured = benchmark.measure(attention, readers, count);
                    Map<String, Object> result = new LinkedHashMap<>();
                    result.put("shape", each.name());
                    result.put("dtype", type.flag());
                    result.put("implementation", attention.name());
                    result.put("batch", size.batch());
                    result.put("context", size.context());
                    result.put("threads", count);
                    result.put("pinned", measured.pinned());
                    result.put("peak_read_gbps", Statistics.rounded(measured.peakBandwidth()));
                    result.put("sequential_read_gbps", Statistics.rounded(measured.sequential()));
                    result.put("vector_arithmetic_gbps", Statistics.rounded(measured.arithmetic()));
                    result.put("kernel_gbps", Statistics.rounded(measured.kernel()));
                    result.put("share_of_peak_bandwidth", Statistics.rounded(measured.share()));
                    result.put("share_of_sequential_read", Statistics.rounded(measured.shareOfSequential()));
                    result.put("round_us", Statistics.rounded(measured.micros()));
                    results.add(result);
                    if (!measured.pinned()) {
                        System.err.println("given up: none of " + count
                                + " threads is pinned, there are fewer cores or a CPU quota");
                    }
                    System.err.printf(
                            Locale.ROOT,
                            "%-14s %-9s %-12s %3d x %,6d, %2d threads: roof %6.1f GB/s, multiply-adds %6.1f, kernel %6.1f, share %.2f (%.2f of a sequential read), %.1f us%n",
                            each.name(),
                            type.flag(),
                            attention.name(),
                            size.batch(),
                            size.context(),
                            count,
                            measured.peakBandwidth(),
                            measured.arithmetic(),
                            measured.kernel(),
                            measured.share(),
                            measured.shareOfSequential(),
                            measured.micros());
                }
            }
        }
    }

    private void write(List<Map<String, Object>> results) throws IOException {
        Map<String, Object> whole = new LinkedHashMap<>();
        whole.put("commit", BenchReport.commit());
        whole.put("machine", MachineProbe.machine());
        whole.put("flags", String.join(" ", spec.commandLine().getParseResult().originalArgs()));
        whole.put("time", BenchReport.now());
        whole.put("results", results);
        report.write(whole);
    }
}
