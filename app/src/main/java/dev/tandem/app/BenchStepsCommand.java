package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cuda.CudaExecutor;
import dev.tandem.cuda.tune.StepTimer;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine;

/** {@code bench steps}. */
@Command(
        name = "steps",
        mixinStandardHelpOptions = true,
        description = {
            "GPU time of decode steps, measured by the GPU's own clock: the whole step, and products, attention and row-wise",
            "kernels replayed apart. Bytes are the weights and the KV of the rows, each read once."
        })
final class BenchStepsCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options;

    @Mixin
    BenchReport report;

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Option(names = "--batch", split = ",", defaultValue = "1,24,64,256", description = "Rows (${DEFAULT-VALUE}).")
    List<Integer> batches;

    @Option(names = "--context", defaultValue = "1000", description = "Tokens of each row (${DEFAULT-VALUE}).")
    int context;

    @Option(names = "--prefill", split = ",", description = "Prompts of so many tokens, each in a step of its own.")
    List<Integer> prompts = List.of();

    @Option(
            names = "--slots",
            defaultValue = "0",
            description =
                    "Empty slots for in-flight tokens beside the rows, with a strategy that has them (${DEFAULT-VALUE}).")
    int slots;

    @Option(
            names = "--piggybacked",
            defaultValue = "0",
            description = "Tokens of a prompt's end that each decode step computes beside its rows (${DEFAULT-VALUE}).")
    int piggybacked;

    @Option(
            names = "--rounds",
            defaultValue = "21",
            description = "Replays, of which the median counts (${DEFAULT-VALUE}).")
    int rounds;

    @Override
    public Integer call() throws IOException {
        report.check();
        options.check();
        if (rounds < 1
                || batches.stream().anyMatch(rows -> rows < 1)
                || prompts.stream().anyMatch(tokens -> tokens < 1)
                || context < 1) {
            throw new ConfigurationException("--batch " + batches + ", --context " + context + ", --prefill " + prompts
                    + " and --rounds "
                    + rounds + ": each number must be at least 1");
        }
        if (!options.gpu.chosen()) {
            throw new ConfigurationException("bench steps needs an NVIDIA GPU and --device is " + options.gpu.device
                    + "; tandem doctor says what was found");
        }
        Backend backend = EngineAssembly.backend(options, System.err);
        try (CudaExecutor executor = (CudaExecutor) backend.executor()) {
            if (slots < 0 || slots > executor.limits().slotsPerLayer() || piggybacked < 0) {
                throw new ConfigurationException("--slots " + slots + " and --piggybacked " + piggybacked
                        + " must be 0 or more, and slots at most "
                        + executor.limits().slotsPerLayer() + " under --strategy "
                        + options.strategy.chosen().flag());
            }
            for (int prompt : prompts) {
                write(
                        executor.timings().timePrefill(prompt, rounds),
                        "prefill",
                        backend.weightBytes(),
                        backend.model());
            }
            for (int batch : batches) {
                double kv = (double) batch * context * executor.limits().kvBytesPerToken();
                StepTimer.StepTime time = piggybacked == 0
                        ? executor.timings().timeDecode(batch, context, slots, rounds)
                        : executor.timings().timePiggybacked(batch, piggybacked, context, slots, rounds);
                write(
                        time,
                        slots == 0 ? "step" : "step with " + slots + " slots",
                        backend.weightBytes() + kv,
                        backend.model());
            }
        }
        return 0;
    }

    private void write(StepTimer.StepTime time, String window, double bytes, String model) throws IOException {
        Map<String, Object> result = BenchReport.circumstances(
                options, model, spec.commandLine().getParseResult().originalArgs());
        result.put("window", window);
        result.put("batch_size", time.rows());
        result.put("context", time.context());
        result.put("step_ms", Statistics.rounded(time.whole()));
        result.put("gemm_ms", Statistics.rounded(time.gemms()));
        result.put("attention_ms", Statistics.rounded(time.attention()));
        result.put("row_wise_ms", Statistics.rounded(time.rowWise()));
        result.put("read_tbps", Statistics.rounded(bytes / time.whole() / 1e9));
        report.write(result);
    }
}
