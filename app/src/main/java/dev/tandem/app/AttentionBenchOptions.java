package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import java.util.List;
import picocli.CommandLine.Option;

/** Options of {@code bench attention}. */
@Section(Section.Heading.COMMAND)
final class AttentionBenchOptions {
    @Option(
            names = "--threads",
            split = ",",
            paramLabel = "NUMBER",
            description = "Numbers of threads, for example 1,8,16. Default: all cores but two, as beside a GPU.")
    List<Integer> threads = List.of();

    @Option(
            names = "--batch",
            description = "Host tokens per step; needs --context. Default: 64 of 1,000 tokens, then 8 of 16,000.")
    int batch;

    @Option(names = "--context", description = "KV tokens per host token; needs --batch. Default: see --batch.")
    int context;

    @Option(
            names = "--implementation",
            paramLabel = "NAME",
            description = "Measure this implementation alone. Default: all that run here.")
    String implementation = "";

    @Option(
            names = "--dtype",
            split = ",",
            paramLabel = "TYPE",
            defaultValue = "bfloat16,float16",
            description = "Types of the KV. Default: ${DEFAULT-VALUE}.")
    List<String> dtypes = List.of();

    @Option(
            names = "--shape",
            description = "Heads: gqa-32-8-128 (Llama-3.1-8B) or mha-32-32-128 (Llama-2-7B). Default: both.")
    String shape = "";

    @Option(
            names = "--rounds",
            defaultValue = "7",
            description = "Rounds of reads and of attention; the result is their median. Default: ${DEFAULT-VALUE}.")
    int rounds;

    /** @throws ConfigurationException that names the option, its value and the limit */
    void check() {
        if (batch < 0 || context < 0 || (batch == 0) != (context == 0) || rounds < 1) {
            throw new ConfigurationException("--batch " + batch + ", --context " + context + " and --rounds " + rounds
                    + ": --batch and --context go together, and all must be positive");
        }
        if (threads.stream().anyMatch(count -> count < 1)) {
            throw new ConfigurationException("--threads " + threads + ": each number must be at least 1");
        }
    }

    List<HostAttentionRun.Size> sizes() {
        return batch > 0
                ? List.of(new HostAttentionRun.Size(batch, context))
                : List.of(new HostAttentionRun.Size(64, 1000), new HostAttentionRun.Size(8, 16_000));
    }

    List<Integer> threadCounts() {
        return threads.isEmpty() ? List.of(CudaBackend.defaultAttentionThreads()) : threads;
    }
}
