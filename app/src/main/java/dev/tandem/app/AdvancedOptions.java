package dev.tandem.app;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.engine.config.ConfigurationException;
import java.nio.file.Path;
import java.util.Optional;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.TypeConversionException;

/** Options for CPU threads, traces, and machines for comparisons. */
@Section(Section.Heading.ADVANCED)
final class AdvancedOptions {
    /** More threads than this are refused: no machine has as many cores, and each thread spins during a step. */
    private static final int MAX_THREADS = 4096;

    @Option(
            names = "--threads",
            paramLabel = "NUMBER",
            description = "Compute threads of the CPU executor. Default: the cores that this process may use.")
    Optional<Integer> threads = Optional.empty();

    @Option(
            names = "--pin-threads",
            negatable = true,
            defaultValue = "true",
            fallbackValue = "true",
            description = "Bind the threads of the CPU executor and of host attention to cores, unless a CPU quota is"
                    + " below their number. Default: ${DEFAULT-VALUE}.")
    boolean pinThreads = true;

    @Option(
            names = "--cpu-activations",
            paramLabel = "PRECISION",
            defaultValue = "exact",
            description =
                    "Activations in the CPU executor's products with quantised GGUF blocks: exact for fp32, or int8,"
                            + " which is faster and less exact and needs AVX-512 with VNNI. Default: ${DEFAULT-VALUE}.")
    ActivationPrecision cpuActivations = ActivationPrecision.EXACT;

    @Option(
            names = "--trace",
            paramLabel = "FILE",
            description = "Write a timeline of steps, GPU layers and CPU attention to this file at the end, for"
                    + " Perfetto. Default: none.")
    Optional<Path> trace = Optional.empty();

    @Option(
            names = "--preset",
            paramLabel = "NAME",
            converter = PresetConverter.class,
            description = "For comparisons on an H100 or H200: h200, h200-26k, h200-16sm-26k, h200-8sm-2req,"
                    + " h200-2req, imitated-l4 or imitated-a10g. Sets the model, KV pool, limits, SMs and bandwidth"
                    + " that other options leave open. Default: none.")
    Optional<Preset> preset = Optional.empty();

    /**
     * Checks what needs no model.
     *
     * @param gpu whether the model runs on a GPU
     * @throws ConfigurationException that names the option, its value and the remedy
     */
    void check(boolean gpu) {
        checkThreads("--threads", threads);
        if (gpu && cpuActivations != ActivationPrecision.EXACT) {
            throw new ConfigurationException("--cpu-activations " + cpuActivations.flag()
                    + " is for the CPU executor, and the model runs on a GPU; leave it out, or use --device cpu");
        }
        trace.ifPresent(file -> OutputFile.check("--trace", file));
    }

    static void checkThreads(String option, Optional<Integer> threads) {
        if (threads.isPresent() && (threads.get() < 1 || threads.get() > MAX_THREADS)) {
            throw new ConfigurationException(option + " " + threads.get() + " is too "
                    + (threads.get() < 1
                            ? "small; it must be at least 1"
                            : "large; it must be at most " + MAX_THREADS));
        }
    }

    static final class PresetConverter implements ITypeConverter<Preset> {
        @Override
        public Preset convert(String value) {
            try {
                return Preset.of(value);
            } catch (ConfigurationException e) {
                throw new TypeConversionException(e.getMessage());
            }
        }
    }
}
