package dev.tandem.app;

import dev.tandem.bench.ideal.Bounds;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.Checkpoint.LoadFormat;
import java.util.Arrays;
import java.util.Locale;
import java.util.Optional;

/**
 * Machines and models for comparisons, all on one H100 or H200. A green context with few SMs replaces a smaller GPU,
 * and the KV pools have the sizes of NEO's artifact. The imitated cards have the bandwidth and KV memory of the real
 * ones. Weights are random, with the models' true shapes.
 */
enum Preset {
    H200("Llama-3.1-8B", 0, Optional.empty(), 20_480, 512, 0, "16GiB"),
    H200_26K("Llama-3.1-8B", 0, Optional.of(1650), 20_480, 256, 256, "36GiB"),
    H200_16SM_26K("Llama-3.1-8B", 16, Optional.of(1650), 20_480, 256, 512, "72GiB"),
    H200_8SM_2REQ("Llama-2-7B", 8, Optional.of(54), 832, 64, 256, "60GiB"),
    H200_2REQ("Llama-2-7B", 0, Optional.of(54), 832, 64, 192, "44GiB"),
    /** 300 GB/s by its data sheet, 0.9 of which can be read; 5.5 GB of KV beside Llama-3.1-8B. */
    IMITATED_L4("Llama-3.1-8B", 8, Optional.of(2622), 2048, 64, 256, "48GiB", 270),
    /**
     * 600 GB/s and 70 TFLOP/s by its data sheet. Beside this load weights are read at 547 GB/s, 0.9 of that, and
     * prompts have 62 TFLOP/s (profile h100-imitated-a10g).
     */
    IMITATED_A10G("Llama-3.1-8B", 24, Optional.of(2622), 2048, 64, 256, "48GiB", 590);

    private static final int GPU_BLOCK_TOKENS = 16;

    private final String model;
    private final int multiprocessors;
    private final Optional<Integer> gpuBlocks;
    private final int batchTokens;
    private final int sequences;
    /** Number of sequences on the host tier besides those on the GPU, and the memory for them. */
    private final int hostSequences;

    private final ByteSize hostKv;
    /** GB/s of GPU memory; 0 for all. */
    private final double bandwidth;

    Preset(
            String model,
            int multiprocessors,
            Optional<Integer> gpuBlocks,
            int batchTokens,
            int sequences,
            int hostSequences,
            String hostKv) {
        this(model, multiprocessors, gpuBlocks, batchTokens, sequences, hostSequences, hostKv, 0);
    }

    Preset(
            String model,
            int multiprocessors,
            Optional<Integer> gpuBlocks,
            int batchTokens,
            int sequences,
            int hostSequences,
            String hostKv,
            double bandwidth) {
        this.model = model;
        this.multiprocessors = multiprocessors;
        this.gpuBlocks = gpuBlocks;
        this.batchTokens = batchTokens;
        this.sequences = sequences;
        this.hostSequences = hostSequences;
        this.hostKv = ByteSize.parse(hostKv);
        this.bandwidth = bandwidth;
    }

    String flag() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    static Preset of(String flag) {
        return Arrays.stream(values())
                .filter(preset -> preset.flag().equals(flag))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("--preset " + flag + " is not known; use "
                        + String.join(
                                ", ", Arrays.stream(values()).map(Preset::flag).toList())));
    }

    /** Sets all options of the preset that the user has not set. */
    void apply(ModelOptions options) {
        if (options.model().isEmpty()) {
            options.use(
                    ModelConfigurations.directory(model, CudaBackend.cache()).toString());
            options.loadFormat = LoadFormat.DUMMY;
        }
        if (options.gpu.multiprocessorLimit == 0) {
            options.gpu.multiprocessorLimit = multiprocessors;
        }
        if (options.gpu.bandwidthLimit == 0) {
            options.gpu.bandwidthLimit = bandwidth;
        }
        MemoryOptions memory = options.memory;
        memory.gpuBlocks = memory.gpuBlocks.or(() -> gpuBlocks);
        SchedulingOptions scheduling = options.scheduling;
        scheduling.maxNumBatchedTokens = scheduling.maxNumBatchedTokens.or(() -> Optional.of(batchTokens));
        boolean host = options.strategy.chosen().offloads();
        scheduling.maxNumSeqs =
                scheduling.maxNumSeqs.or(() -> Optional.of(host ? sequences + hostSequences : sequences));
        memory.hostKv = memory.hostKv.or(() -> host ? Optional.of(hostKv) : Optional.empty());
    }

    String model() {
        return model;
    }

    ByteSize hostKv() {
        return hostKv;
    }

    /** The hardware that was measured for this preset. */
    String hardware() {
        return switch (this) {
            case H200, H200_26K -> "h200";
            case H200_16SM_26K, H200_8SM_2REQ, H200_2REQ -> flag();
            case IMITATED_L4 -> "l4-16vcpu";
            case IMITATED_A10G -> "a10g-16vcpu";
        };
    }

    /** GPU bytes for KV, where the preset sets them. */
    Optional<Double> gpuKvBytes(double bytesPerToken) {
        return gpuBlocks.map(blocks -> blocks * GPU_BLOCK_TOKENS * bytesPerToken);
    }

    /** Bounds of the steps of this preset. */
    Bounds bounds() {
        return new Bounds(Double.POSITIVE_INFINITY, batchTokens, sequences);
    }
}
