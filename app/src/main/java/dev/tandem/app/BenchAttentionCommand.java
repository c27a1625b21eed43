package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench attention}. */
@Command(
        name = "attention",
        mixinStandardHelpOptions = true,
        description = "Compares decode attention over host KV with plain reads of the same blocks, in turn, with the"
                + " threads that serve beside a GPU. It needs no GPU.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench attention --threads 1,8,16",
            "  tandem bench attention --batch 64 --context 2000 --dtype bfloat16 --json"
        })
final class BenchAttentionCommand implements Callable<Integer> {
    @Mixin
    BenchReport report = new BenchReport();

    @Mixin
    AttentionBenchOptions what = new AttentionBenchOptions();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Override
    public Integer call() throws IOException {
        what.check();
        report.check();
        HostAttentionRun run = new HostAttentionRun(what.implementation, what.threadCounts(), what.rounds);
        List<Map<String, Object>> results = new ArrayList<>();
        for (HostAttentionRun.Shape shape : HostAttentionRun.SHAPES) {
            for (String dtype : what.dtypes) {
                for (HostAttentionRun.Size size : what.sizes()) {
                    if (what.shape.isEmpty() || what.shape.equals(shape.name())) {
                        run.measure(shape, DataType.of(dtype), size).forEach(row -> results.add(print(row)));
                    }
                }
            }
        }
        if (results.isEmpty()) {
            throw new ConfigurationException("no --implementation '" + what.implementation + "' for --shape '"
                    + what.shape + "' runs here; shapes are gqa-32-8-128 and mha-32-32-128, implementations "
                    + String.join(", ", DecodeImplementations.names()));
        }
        Map<String, Object> whole = new LinkedHashMap<>();
        whole.put("commit", BenchReport.commit());
        whole.put("machine", MachineProbe.machine());
        whole.put("flags", String.join(" ", spec.commandLine().getParseResult().originalArgs()));
        whole.put("time", BenchReport.now());
        whole.put("results", results);
        report.write(whole);
        return 0;
    }

    private static Map<String, Object> print(HostAttentionRun.Row row) {
        System.err.println(row);
        var measured = row.measured();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("shape", row.shape().name());
        result.put("dtype", row.type().flag());
        result.put("implementation", row.implementation());
        result.put("batch", row.size().batch());
        result.put("context", row.size().context());
        result.put("threads", row.threads());
        result.put("pinned", measured.pinned());
        result.put("peak_read_gbps", Statistics.rounded(measured.peakBandwidth()));
        result.put("sequential_read_gbps", Statistics.rounded(measured.sequential()));
        result.put("vector_arithmetic_gbps", Statistics.rounded(measured.arithmetic()));
        result.put("kernel_gbps", Statistics.rounded(measured.kernel()));
        result.put("fraction_of_peak_bandwidth", Statistics.rounded(measured.fractionOfPeak()));
        result.put("fraction_of_sequential_read", Statistics.rounded(measured.fractionOfSequentialRead()));
        result.put("round_us", Statistics.rounded(measured.micros()));
        return result;
    }
}
