package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.loop.SchedulingPolicy;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** What every command that runs a model understands. */
final class ModelOptions {
    private static final String AUTO = "auto";
    /** A typo's worth more than any machine has: each is a thread that spins while a step runs. */
    private static final int MAX_THREADS = 4096;
    /** A day: longer is no watchdog. Seconds. */
    private static final int MAX_WATCHDOG = 86_400;

    @Parameters(
            arity = "0..1",
            paramLabel = "MODEL",
            description = "A .gguf file or a Hugging Face directory. Default: " + DefaultModel.NAME + ", fetched once.")
    Optional<Path> model = Optional.empty();

    @Option(
            names = "--dtype",
            defaultValue = "auto",
            description = "auto, bfloat16, float16 or float32: weights and KV cache. auto takes the file's own type,"
                    + " and bfloat16 for GGUF blocks that are unpacked on the CPU (Q5_0, Q5_1, Q4_K, Q5_K, Q6_K)."
                    + " Blocks of Q4_0, Q4_1 and Q8_0 are kept there and computed exactly, whatever the type;"
                    + " the KV cache of such files is float32 by default.")
    String dtype = "auto";

    @Option(
            names = "--load-format",
            defaultValue = "auto",
            description = "auto, or dummy: seeded random weights from the configuration alone.")
    LoadFormat loadFormat = LoadFormat.AUTO;

    @Option(
            names = "--max-model-len",
            description = "Longest sequence, prompt and output. Default: what the model allows.")
    Optional<Integer> maxModelLen = Optional.empty();

    @Option(
            names = "--max-num-seqs",
            description = "Sequences that run at the same time. Default: 64 on the CPU, 256 on a GPU.")
    Optional<Integer> maxNumSeqs = Optional.empty();

    @Option(
            names = "--max-num-batched-tokens",
            description =
                    "Tokens computed in one step, all sequences together. Default: 1024 on the CPU, 8192 on a GPU.")
    Optional<Integer> maxNumBatchedTokens = Optional.empty();

    @Option(
            names = "--max-prefill-chunk",
            description =
                    "Prompt tokens of one sequence in one step. Default: 512 on the CPU, --max-num-batched-tokens on a GPU.")
    Optional<Integer> maxPrefillChunk = Optional.empty();

    @Mixin
    GpuOptions gpu = new GpuOptions();

    @Option(
            names = "--max-queued-requests",
            defaultValue = "1024",
            description = "Requests that may wait; more are refused with 429 (${DEFAULT-VALUE}).")
    int maxQueuedRequests = 1024;

    @Option(
            names = "--scheduling-policy",
            defaultValue = "fcfs",
            description =
                    "fcfs: requests run in order of arrival, and a priority is refused; priority: a lower priority value runs first,"
                            + " where one unit weighs as much as 10 s of waiting (${DEFAULT-VALUE}).")
    SchedulingPolicy schedulingPolicy = SchedulingPolicy.FCFS;

    @Option(
            names = "--num-gpu-blocks-override",
            description = "KV blocks of 16 tokens in the GPU pool; on the CPU executor, in the pool that plays the GPU."
                    + " Default: what --kv-cache-memory holds.")
    Optional<Integer> gpuBlocks = Optional.empty();

    @Option(
            names = "--kv-cache-memory",
            converter = ByteSizeConverter.class,
            description =
                    "Memory of the GPU pool, e.g. 2GiB. Default: on a GPU what --gpu-memory-utilization leaves, on the CPU a quarter of the"
                            + " machine's, at most 4 GiB.")
    Optional<ByteSize> kvCacheMemory = Optional.empty();

    @Option(
            names = "--host-kv",
            converter = ByteSizeConverter.class,
            description =
                    "Memory of the host pool, where the CPU's KV lives and preempted KV waits, e.g. 32GiB. Default: a quarter of the"
                            + " machine's memory, at most 32GiB with a host tier beside a GPU, else 4GiB; on the CPU as --kv-cache-memory.")
    Optional<ByteSize> hostKv = Optional.empty();

    @Option(
            names = "--preemption",
            defaultValue = "swap",
            description =
                    "swap: preempted KV moves to the host pool; recompute: it is dropped and computed again (${DEFAULT-VALUE}).")
    Preemption preemption = Preemption.SWAP;

    @Option(
            names = "--threads",
            description = "Compute threads of the CPU executor. Default: the cores this process may use.")
    Optional<Integer> threads = Optional.empty();

    @Option(
            names = "--pin-threads",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description =
                    "Bind threads of the CPU executor and of host attention to cores, where no CPU quota lies below"
                            + " them (${DEFAULT-VALUE}).")
    boolean pinThreads = true;

    @Option(
            names = "--attention-threads",
            description =
                    "Threads that attend for rows whose KV is on the host. Default: on the CPU executor all --threads, beside a GPU all"
                            + " cores but two; none under gpu-only.")
    Optional<Integer> attentionThreads = Optional.empty();

    @Option(
            names = "--host-watchdog",
            defaultValue = "10",
            description =
                    "Seconds after which a thread that attends for one row counts as stalled: the in-flight tokens fail, the GPU goes on"
                            + " alone. A step waits for its host tokens twice as long at most (${DEFAULT-VALUE}).")
    double hostWatchdog = 10;

    @Mixin
    StrategyOptions strategy = new StrategyOptions();

    @Option(
            names = "--trace",
            paramLabel = "FILE",
            description =
                    "Write what ran when (steps, GPU layers, CPU attention) to this file at the end, for Perfetto.")
    Optional<Path> trace = Optional.empty();

    @Option(
            names = "--seed",
            defaultValue = "0",
            description = "Seed of sampling and of dummy weights (${DEFAULT-VALUE}).")
    long seed;

    @Option(
            names = "--preset",
            converter = PresetConverter.class,
            description =
                    "For comparisons, on an H200: h200, h200-26k, h200-16sm-26k, h200-8sm-2req or h200-2req. Sets model, pool, limits"
                            + " and multiprocessors where they are not given.")
    Optional<Preset> preset = Optional.empty();

    static final class PresetConverter implements picocli.CommandLine.ITypeConverter<Preset> {
        @Override
        public Preset convert(String value) {
            try {
                return Preset.of(value);
            } catch (ConfigurationException e) {
                throw new picocli.CommandLine.TypeConversionException(e.getMessage());
            }
        }
    }

    /**
     * Checks what needs no model, so that a mistake is answered before anything is fetched, loaded or bound.
     *
     * @throws ConfigurationException that names the option, its value and the remedy
     */
    void check() {
        if (!dtype.equals(AUTO)) {
            try {
                DataType.of(dtype);
            } catch (ModelException e) {
                throw new ConfigurationException("--dtype: " + e.getMessage(), e);
            }
        }
        gpu.check();
        strategy.check(budget(), preemption);
        atLeast("--max-model-len", 2, maxModelLen); // a token of the prompt and one of the answer
        atLeast("--max-queued-requests", 1, Optional.of(maxQueuedRequests));
        atLeast("--num-gpu-blocks-override", 1, gpuBlocks);
        atLeast("--threads", 1, threads);
        atMost("--threads", MAX_THREADS, threads);
        atLeast("--attention-threads", 1, attentionThreads);
        atMost("--attention-threads", MAX_THREADS, attentionThreads);
        if (kvCacheMemory.isPresent() && kvCacheMemory.get().bytes() == 0) {
            throw new ConfigurationException(
                    "--kv-cache-memory 0 leaves no KV pool; give it memory, for example 2GiB, or leave it out");
        }
        if (!(hostWatchdog > 0 && hostWatchdog <= MAX_WATCHDOG)) {
            throw new ConfigurationException("--host-watchdog " + hostWatchdog
                    + " must be a number of seconds above 0 and at most " + MAX_WATCHDOG);
        }
        trace.ifPresent(file -> OutputFile.check("--trace", file));
    }

    private static void atLeast(String option, int min, Optional<Integer> value) {
        if (value.isPresent() && value.get() < min) {
            throw new ConfigurationException(option + " " + value.get() + " is too small; it must be at least " + min);
        }
    }

    private static void atMost(String option, int max, Optional<Integer> value) {
        if (value.isPresent() && value.get() > max) {
            throw new ConfigurationException(option + " " + value.get() + " is too large; it must be at most " + max);
        }
    }

    /**
     * Longest sequence: --max-model-len, else what the model allows.
     *
     * @throws ConfigurationException when the option exceeds the model
     */
    int contextTokens(ModelConfig config) {
        int allowed = config.usableContext();
        if (maxModelLen.isPresent() && maxModelLen.get() > allowed) {
            throw new ConfigurationException("--max-model-len " + maxModelLen.get() + " is more than the " + allowed
                    + " tokens that the model allows; lower it or leave it out");
        }
        return maxModelLen.orElse(allowed);
    }

    int maxNumSeqs() {
        return maxNumSeqs.orElse(gpu.chosen() ? 256 : 64);
    }

    /** What one step may hold. */
    Budget budget() {
        int tokens = maxNumBatchedTokens.orElse(gpu.chosen() ? 8192 : 1024);
        return new Budget(tokens, maxNumSeqs(), maxPrefillChunk.orElse(gpu.chosen() ? tokens : Math.min(512, tokens)));
    }

    static final class ByteSizeConverter implements picocli.CommandLine.ITypeConverter<ByteSize> {
        @Override
        public ByteSize convert(String value) {
            return ByteSize.parse(value);
        }
    }
}
