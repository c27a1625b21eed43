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
import picocli.CommandLine.Option;

/** Which device computes, and how much of it. */
final class GpuOptions {
    private static final String AUTO = "auto";
    private static final String CPU = "cpu";

    @Option(
            names = "--device",
            defaultValue = "auto",
            description =
                    "auto, cuda, cuda:NUMBER or cpu (${DEFAULT-VALUE}). auto takes the first NVIDIA GPU, else the CPU.")
    String device = "auto";

    @Option(
            names = "--gpu-memory-utilization",
            defaultValue = "0.92",
            description = "Share of the GPU's memory that may be used, weights included (${DEFAULT-VALUE}).")
    double memoryUtilization = 0.92;

    @Option(
            names = "--gpu-sm-limit",
            defaultValue = "0",
            description =
                    "Run on so many of the GPU's multiprocessors, the rest stays free for others; 0 for all (${DEFAULT-VALUE}).")
    int multiprocessorLimit;

    @Option(
            names = "--cuda-libraries",
            defaultValue = "auto",
            description =
                    "Where NVIDIA's NVRTC and cublasLt come from: auto (installed, else fetched), system, fetch, or a folder"
                            + " (${DEFAULT-VALUE}).")
    String libraries = "auto";

    @Option(
            names = "--kv-checksums",
            description =
                    "Sum all KV that moves between GPU and host on both sides; a difference ends all requests with an error. For"
                            + " tests and machines in doubt: the host's sums take the engine's time.")
    boolean kvChecksums;

    @Option(names = "--enforce-eager", description = "Never replay decode steps from CUDA graphs.")
    boolean eager;

    private Boolean chosen;

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (!device.equalsIgnoreCase(CPU)) {
            number();
        }
        if (!(memoryUtilization > 0 && memoryUtilization <= 1)) {
            throw new ConfigurationException("--gpu-memory-utilization " + memoryUtilization
                    + " is a share of the GPU's memory; it must lie in (0, 1]");
        }
        if (multiprocessorLimit < 0) {
            throw new ConfigurationException(
                    "--gpu-sm-limit " + multiprocessorLimit + " must be positive, or 0 for all multiprocessors");
        }
        if (!Set.of(AUTO, "system", "fetch").contains(libraries) && !Files.isDirectory(Path.of(libraries))) {
            throw new ConfigurationException(
                    "--cuda-libraries " + libraries + " is not a folder; use auto, system, fetch or a folder");
        }
    }

    /** @throws ConfigurationException where the options name a GPU and this machine has no driver for one */
    void requireDriver() {
        if (chosen() && CudaLibraries.driver().isEmpty()) {
            throw new ConfigurationException("--device " + device
                    + " needs NVIDIA's driver, and its library libcuda.so.1 was not found;"
                    + " install the driver, or use --device cpu (tandem doctor says what was found)");
        }
    }

    /** Whether a GPU computes; looked up once. */
    boolean chosen() {
        if (chosen == null) {
            chosen = switch (device.toLowerCase(Locale.ROOT)) {
                case CPU -> false;
                case AUTO -> usable();
                default -> {
                    number();
                    yield true;
                }
            };
        }
        return chosen;
    }

    private static boolean usable() {
        return name(0).isPresent();
    }

    /** The GPU's name; empty when there is none that can be used. */
    static Optional<String> name(int number) {
        return CudaLibraries.driver().flatMap(driver -> {
            try (Device device = new Device(driver, number, 0)) {
                return Optional.of(device.name());
            } catch (CudaException none) {
                return Optional.empty();
            }
        });
    }

    /** Which GPU. */
    int number() {
        String[] parts = device.split(":");
        boolean valid = parts[0].equalsIgnoreCase("cuda")
                && (parts.length == 1 || parts.length == 2 && parts[1].matches("\\d{1,3}"));
        if (!valid && !device.equalsIgnoreCase(AUTO)) {
            throw new ConfigurationException(
                    "--device " + device + " is not known; use auto, cuda, cuda:NUMBER or cpu");
        }
        return parts.length == 2 ? Integer.parseInt(parts[1]) : 0;
    }
}
