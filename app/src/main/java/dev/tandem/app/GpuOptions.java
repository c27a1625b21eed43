package dev.tandem.app;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.config.ConfigurationException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.Option;

/** Options that choose the device and configure the GPU. */
@Section(Section.Heading.ADVANCED)
final class GpuOptions {
    private static final String AUTO = "auto";
    private static final String CPU = "cpu";
    private static final Pattern CUDA = Pattern.compile("cuda(?::([0-9]{1,3}))?", Pattern.CASE_INSENSITIVE);

    @Option(
            names = "--device",
            paramLabel = "DEVICE",
            defaultValue = AUTO,
            description = "Where the model runs: auto, cuda, cuda:NUMBER or cpu. auto takes the first NVIDIA GPU that"
                    + " can be used, else the CPU. Default: ${DEFAULT-VALUE}.")
    String device = AUTO;

    @Option(
            names = "--gpu-sm-limit",
            paramLabel = "SMS",
            defaultValue = "0",
            description = "SMs of the GPU to run on; the others stay free. 0 for all. Default: ${DEFAULT-VALUE}.")
    int multiprocessorLimit;

    @Option(
            names = "--gpu-bandwidth-limit",
            paramLabel = "GB/S",
            defaultValue = "0",
            description = "Memory bandwidth of the GPU to imitate, in GB/s: kernels on the SMs that --gpu-sm-limit"
                    + " leaves free take the rest of the bandwidth. 0 for no limit. Default: ${DEFAULT-VALUE}.")
    double bandwidthLimit;

    @Option(
            names = "--cuda-libraries",
            paramLabel = "SOURCE",
            defaultValue = AUTO,
            description = "Where NVRTC and cuBLASLt come from: system, fetch, a folder, or auto, which takes the"
                    + " installed ones and fetches what is missing. Default: ${DEFAULT-VALUE}.")
    String libraries = AUTO;

    @Option(
            names = "--enforce-eager",
            fallbackValue = "true",
            description = "Launch decode steps kernel by kernel, without CUDA graphs. Default: off.")
    boolean eager;

    @Option(
            names = "--kv-checksums",
            fallbackValue = "true",
            description = "Compare checksums of all KV that moves between GPU and host; a difference ends all requests"
                    + " with an error. For tests and doubtful machines: it takes the engine's time. Default: off.")
    boolean kvChecksums;

    private Optional<Boolean> chosen = Optional.empty();

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (!device.equalsIgnoreCase(CPU)) {
            number();
        }
        if (multiprocessorLimit < 0) {
            throw new ConfigurationException(
                    "--gpu-sm-limit " + multiprocessorLimit + " must be positive, or 0 for all multiprocessors");
        }
        if (!(bandwidthLimit >= 0) || bandwidthLimit == Double.POSITIVE_INFINITY) {
            throw new ConfigurationException(
                    "--gpu-bandwidth-limit " + bandwidthLimit + " must be positive, or 0 for no limit");
        }
        if (!Set.of(AUTO, "system", "fetch").contains(libraries) && !Files.isDirectory(Path.of(libraries))) {
            throw new ConfigurationException(
                    "--cuda-libraries " + libraries + " is not a folder; use auto, system, fetch or a folder");
        }
    }

    /** @throws ConfigurationException when the options name a GPU and this machine has no GPU driver */
    void requireDriver() {
        if (chosen() && CudaLibraries.driver().isEmpty()) {
            throw new ConfigurationException("--device " + device
                    + " needs NVIDIA's driver, and its library libcuda.so.1 was not found;"
                    + " install the driver, or use --device cpu (tandem doctor says what was found)");
        }
    }

    /** Whether a GPU is used; determined once. */
    boolean chosen() {
        boolean known = chosen.orElseGet(this::usesGpu);
        chosen = Optional.of(known);
        return known;
    }

    private boolean usesGpu() {
        return switch (device.toLowerCase(Locale.ROOT)) {
            case CPU -> false;
            case AUTO -> name(0).isPresent();
            default -> {
                number();
                yield true;
            }
        };
    }

    /** The GPU's name; empty when no GPU can be used. */
    static Optional<String> name(int number) {
        return CudaLibraries.driver().flatMap(driver -> {
            try (Device device = new Device(driver, number, 0)) {
                return Optional.of(device.name());
            } catch (CudaException none) {
                return Optional.empty();
            }
        });
    }

    /** Index of the GPU. */
    int number() {
        Matcher cuda = CUDA.matcher(device);
        if (!cuda.matches() && !device.equalsIgnoreCase(AUTO)) {
            throw new ConfigurationException(
                    "--device " + device + " is not known; use auto, cuda, cuda:NUMBER or cpu");
        }
        return cuda.matches() && cuda.group(1) != null ? Integer.parseInt(cuda.group(1)) : 0;
    }
}
