package dev.tandem.app;

import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.HuggingFaceConfig;
import dev.tandem.model.config.ModelConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options that describe a machine which need not be here, and the sizes of a model. */
@Section(Section.Heading.COMMAND)
final class HardwareOptions {
    /** As {@code --gpu-memory-utilization}, with nothing else on the GPU. */
    static final double GPU_MEMORY_USED = 0.95;

    /** What CUDA, activations and workspaces take. */
    static final double GPU_WORKING_BYTES = 1e9;

    @Option(
            names = "--hardware",
            paramLabel = "NAME|FILE",
            description = "A machine that comes with Tandem, or a hardware file. Default: the preset's.")
    Optional<String> hardware = Optional.empty();

    /** The machine of the option, or the preset's; empty without both. */
    Optional<Hardware> machine(Optional<Preset> preset) {
        return hardware.map(name -> Hardware.NAMES.contains(name) ? Hardware.named(name) : Hardware.read(Path.of(name)))
                .or(() -> preset.map(Preset::hardware).map(Hardware::named));
    }

    /**
     * Sizes of a model.
     *
     * @param model one of {@link ModelConfigurations#NAMES}, or a directory
     * @throws ConfigurationException if the directory has no {@code config.json}
     * @throws dev.tandem.model.ModelException if that is of a model that Tandem does not serve
     */
    static ModelShape shape(String model) {
        if (ModelConfigurations.NAMES.contains(model)) {
            return ModelShape.read(ModelConfigurations.json(model), model);
        }
        Path directory = Path.of(model);
        if (!Files.exists(directory.resolve("config.json"))) {
            throw new ConfigurationException(
                    "--model " + model + " has no config.json; name a model directory, " + names());
        }
        ModelConfig config = HuggingFaceConfig.read(directory, Optional.empty()).config();
        return new ModelShape(
                config.layers(),
                config.hidden(),
                new ModelShape.Attention(config.heads(), config.kvHeads(), config.headDim()),
                config.intermediate(),
                config.vocabulary(),
                DataType.BFLOAT16.bytes(),
                config.tiedEmbeddings(),
                new AttentionSpan(config.windows()));
    }

    /** The known models in an error's remedy. */
    static String names() {
        return String.join(" or ", ModelConfigurations.NAMES);
    }

    /**
     * GPU memory for KV, in bytes, staging included.
     *
     * @param used fraction of the GPU's memory that weights, KV and {@link #GPU_WORKING_BYTES} may take
     * @throws ConfigurationException if the weights leave none
     */
    static double gpuKvBytes(Hardware machine, ModelShape shape, double used) {
        double bytes = used * machine.gpuMemoryBytes() - shape.weightBytes() - GPU_WORKING_BYTES;
        if (bytes <= 0) {
            throw new ConfigurationException("the weights of %.1f GB leave no GPU memory for KV on %s with %.1f GB; use"
                            .formatted(shape.weightBytes() / 1e9, machine.name(), machine.gpuMemoryBytes() / 1e9)
                    + " a smaller --model or a larger --hardware");
        }
        return bytes;
    }
}
