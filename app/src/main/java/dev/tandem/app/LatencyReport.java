package dev.tandem.app;

import dev.tandem.bench.LatencyRun;
import dev.tandem.bench.Statistics;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.model.config.ModelConfig;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/** Computes the results of {@code bench latency}. */
final class LatencyReport {
    /** Peak read bandwidth of the CPU in GB/s, and its peak arithmetic in GFLOP/s. */
    record Peak(double read, double multiplyAdd) {
        static Peak measure(ModelOptions options) {
            int threads = options.advanced.threads.orElse(Runtime.getRuntime().availableProcessors());
            try (MachineProbe probe = new MachineProbe(threads, Clock.system())) {
                return new Peak(probe.readGigabytesPerSecond(), probe.fmaGigaflops());
            }
        }
    }

    private LatencyReport() {}

    /** @param peaks empty on a GPU */
    static void describe(
            Map<String, Object> result,
            EngineAssembly assembly,
            LatencyRun.Shape shape,
            List<LatencyRun.Batch> batches,
            List<Peak> peaks) {
        result.put("window", "latency");
        result.put("batch_size", shape.batchSize());
        result.put("input_len", shape.inputLength());
        result.put("output_len", shape.outputLength());
        Statistics.put(
                result,
                "latency",
                batches.stream().mapToDouble(b -> b.totalSeconds() * 1e3).toArray());
        double prefill = median(batches, LatencyRun.Batch::prefillSeconds);
        double decode = median(batches, LatencyRun.Batch::decodeSeconds);
        int steps = shape.outputLength() - 1;
        double tokens = (double) shape.batchSize() * shape.inputLength();
        result.put("prefill_tokens_per_second", Statistics.rounded(tokens / prefill));
        result.put("ttft_ms", Statistics.rounded(prefill * 1e3));
        result.put("decode_step_ms", Statistics.rounded(decode * 1e3 / steps));
        result.put("decode_tokens_per_second", Statistics.rounded((double) shape.batchSize() * steps / decode));
        double read = assembly.weightBytes() * steps / decode / 1e9;
        result.put("weights_read_gbps", Statistics.rounded(read));
        double flops = prefillFlops(assembly.checkpoint().config(), shape.inputLength());
        double rate = flops * shape.batchSize() / prefill / 1e9;
        result.put("prefill_gflops", Statistics.rounded(rate));
        if (!peaks.isEmpty()) {
            compare(result, peaks, read, rate);
        }
    }

    private static void compare(Map<String, Object> result, List<Peak> peaks, double read, double flops) {
        double peakBandwidth = median(peaks, Peak::read);
        double peakFlops = median(peaks, Peak::multiplyAdd);
        result.put("machine_read_gbps", Statistics.rounded(peakBandwidth));
        result.put("fraction_of_read_bandwidth", Statistics.rounded(read / peakBandwidth));
        result.put("machine_fma_gflops", Statistics.rounded(peakFlops));
        result.put("fraction_of_fma_peak", Statistics.rounded(flops / peakFlops));
    }

    private static <T> double median(List<T> values, ToDoubleFunction<T> value) {
        return Statistics.median(values.stream().mapToDouble(value).toArray());
    }

    /** Floating-point operations of a prefill: GEMMs of all tokens, output head of the last, causal attention. */
    private static double prefillFlops(ModelConfig config, int tokens) {
        double head = (double) config.vocabulary() * config.hidden();
        double linear = 2 * (config.decodeWeights() - head) * tokens;
        double attention = 2.0 * config.layers() * config.heads() * config.headDim() * tokens * tokens;
        return linear + 2 * head + attention;
    }
}
