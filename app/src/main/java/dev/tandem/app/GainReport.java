package dev.tandem.app;

import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.Checkpoint;
import dev.tandem.model.config.ModelConfig;
import java.util.Optional;

/** What {@code doctor} reports about the gain of offloading on this machine, without loading the model. */
final class GainReport {
    private static final String OTHER_MACHINES = "tandem ideal computes the gain of machines that are described";

    private GainReport() {}

    /** One line, with what to do where the gain is unknown. */
    static String line(ModelOptions options, StartLog log) {
        if (!options.gpu.chosen()) {
            return "none without a GPU: on the CPU executor both tiers share the same cores; " + OTHER_MACHINES;
        }
        boolean isPreset = options.model().isEmpty() && options.advanced.preset.isPresent();
        if (!isPreset && !ModelStore.ofUser().isPresent(options.reference())) {
            return "unknown: " + options.model().orElse("the default model")
                    + " is not fetched; tandem profile fetches and measures it";
        }
        if (!options.strategy.chosen().offloads()) {
            options.strategy.strategy = Strategy.ADAPTIVE.flag();
        }
        try (Checkpoint checkpoint = EngineAssembly.open(options)) {
            return CudaBackend.Gpu.find(options.gpu)
                    .map(gpu -> line(options, checkpoint, gpu, EngineAssembly.profiles(log)))
                    .orElse("unknown: the GPU cannot be used");
        }
    }

    /** @param options of a strategy that offloads; sizes that they leave open are set */
    static String line(ModelOptions options, Checkpoint checkpoint, CudaBackend.Gpu gpu, Profiles profiles) {
        ModelConfig config = checkpoint.config();
        Optional<String> obstacle = CudaBackend.hostObstacle(options, config);
        if (obstacle.isPresent()) {
            return "none: " + obstacle.get();
        }
        Optional<Profile> profile = profiles.cached(CudaBackend.profileName(gpu, checkpoint, options), config.layers());
        if (profile.isEmpty()) {
            return "unknown: the cache has no profile of this machine with " + checkpoint.name()
                    + "; measure it with tandem profile, or start tandem serve; " + OTHER_MACHINES;
        }
        MemoryOptions memory = options.memory;
        ModelShape shape = new ModelShape(config, CudaBackend.type(options, config));
        memory.gpuBlocks = CudaBackend.gpuBlocks(memory, shape)
                .or(() -> Optional.of((int) (estimatedKvBytes(options, config, gpu) / shape.blockBytes())));
        if (memory.gpuBlocks.get() < 1) {
            return "unknown: " + checkpoint.name() + " leaves no memory for KV on " + gpu.name();
        }
        memory.hostKv = memory.hostKv.or(() -> Optional.of(new ByteSize(CudaBackend.defaultHostTier())));
        ExecutorLimits limits = SimulationOptions.limits(options, config, profile.get());
        return checkpoint.name() + " with " + new ByteSize(limits.gpuKvBytes()) + " of GPU KV and "
                + memory.hostKv.get() + " of host KV: "
                + new ServedIdeal(
                                profile.get(),
                                limits,
                                ProfileIdeal.bounds(options.budget(), options.strategy.tpotTarget()),
                                Runnable::run)
                        .line();
    }

    /** GPU bytes for KV that weights and workspaces are expected to leave. */
    private static double estimatedKvBytes(ModelOptions options, ModelConfig config, CudaBackend.Gpu gpu) {
        double embeddings = config.tiedEmbeddings() ? 0 : (double) config.vocabulary() * config.hidden();
        double weights = (config.decodeWeights() + embeddings)
                * CudaBackend.type(options, config).bytes();
        return options.memory.gpuUtilization * gpu.memoryBytes() - weights - HardwareOptions.GPU_WORKING_BYTES;
    }
}
