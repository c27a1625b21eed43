package dev.tandem.app;

import dev.tandem.cuda.CudaException;
import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import java.util.Locale;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Which device computes, and how much of it. */
final class GpuOptions {
    @Option(
            names = "--device",
            defaultValue = "auto",
            description = "auto, cuda, cuda:NUMBER or cpu (${DEFAULT-VALUE}). auto takes the first NVIDIA GPU, else the CPU.")
    String device = "auto";

    @Option(
            names = "--gpu-memory-utilization",
            defaultValue = "0.92",
            description = "Share of the GPU's memory that may be used, weights included (${DEFAULT-VALUE}).")
    double memoryUtilization = 0.92;

    @Option(
            names = "--gpu-sm-limit",
            defaultValue = "0",
            description = "Run on so many of the GPU's multiprocessors, the rest stays free for others; 0 for all (${DEFAULT-VALUE}).")
    int multiprocessorLimit;

    @Option(
            names = "--cuda-libraries",
            defaultValue = "auto",
            description = "Where NVIDIA's NVRTC and cublasLt come from: auto (installed, else fetched), system, fetch, or a folder"
                    + " (${DEFAULT-VALUE}).")
    String libraries = "auto";

    @Option(
            names = "--kv-checksums",
            description = "Sum all KV that moves between GPU and host on both sides; a difference ends all requests with an error. For"
                    + " tests and machines in doubt: the host's sums take the engine's time.")
    boolean kvChecksums;

    @Option(names = "--enforce-eager", description = "Never replay decode steps from CUDA graphs.")
    boolean eager;

    private Boolean chosen;

    /** Whether a GPU computes; looked up once. */
    boolean chosen() {
        if (chosen == null) {
            chosen = switch (device.toLowerCase(Locale.ROOT)) {
                case "cpu" -> false;
                case "auto" -> usable();
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
        boolean valid = parts[0].equalsIgnoreCase("cuda") && (parts.length == 1 || parts.length == 2 && parts[1].matches("\\d{1,3}"));
        if (!valid && !device.equals("auto")) {
            throw new IllegalArgumentException("--device '" + device + "' is unknown; use auto, cuda, cuda:NUMBER or cpu");
        }
        return parts.length == 2 ? Integer.parseInt(parts[1]) : 0;
    }
}
