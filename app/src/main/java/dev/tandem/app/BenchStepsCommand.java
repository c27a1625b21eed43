package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.cuda.CudaExecutor;
import dev.tandem.cuda.tune.StepTimer;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorLimits;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench steps}. */
@Command(
        name = "steps",
        mixinStandardHelpOptions = true,
        description = "Measures decode steps by the GPU's own clock: whole steps, and GEMMs, attention and the other"
                + " kernels replayed apart. Bytes are the weights and the KV of the tokens, each read once.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench steps --batch 1,64 --context 2000",
            "  tandem bench steps my-model/ --prefill 512,2048 --json"
        })
final class BenchStepsCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Mixin
    StepOptions steps = new StepOptions();

    @Override
    public Integer call() throws IOException {
        report.check();
        options.check();
        steps.check();
        if (!options.gpu.chosen()) {
            throw new ConfigurationException("bench steps needs an NVIDIA GPU and --device is " + options.gpu.device
                    + "; tandem doctor says what was found");
        }
        StartLog log = new StartLog(System.err, true);
        Backend backend = EngineAssembly.backend(options, log);
        log.printSummary();
        int slots = steps.slots;
        int context = steps.context;
        int rounds = steps.rounds;
        try (CudaExecutor executor = (CudaExecutor) backend.executor()) {
            steps.check(executor.limits(), options.strategy.chosen());
            for (int prompt : steps.prompts) {
                write(
                        executor.timings().timePrefill(prompt, rounds),
                        "prefill",
                        (double) backend.weightBytes(),
                        backend.model());
            }
            for (int batch : steps.batches) {
                ExecutorLimits limits = executor.limits();
                double kv = (double) batch * limits.span().tokens(context) * limits.kvBytesPerToken();
                StepTimer.StepTime time = steps.piggybacked == 0
                        ? executor.timings().timeDecode(batch, context, slots, rounds)
                        : executor.timings().timePiggybacked(batch, steps.piggybacked, context, slots, rounds);
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
