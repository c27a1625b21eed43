package dev.tandem.app;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.ffi.CudaDriver;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.KernelCatalogue;
import dev.tandem.server.http.Printable;
import java.io.PrintStream;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;

/** Prints what {@code doctor} reports about the GPU and its libraries. */
final class GpuReport {
    private GpuReport() {}

    static void print(PrintStream out) {
        try {
            CudaLibraries.driver()
                    .ifPresentOrElse(
                            driver -> device(driver, out),
                            () -> out.println("GPU       none: NVIDIA's driver library libcuda.so.1 was not found, so"
                                    + " models run on the CPU. With an NVIDIA GPU, install its driver (CUDA 12.4 or"
                                    + " later)."));
        } catch (CudaException e) {
            out.println("GPU       cannot be used: " + Printable.oneLine(String.valueOf(e.getMessage())));
        }
        library(out, "NVRTC", CudaLibraries::nvrtc);
        library(out, "cublasLt", CudaLibraries::cublasLt);
    }

    private static void device(CudaDriver driver, PrintStream out) {
        try (Device device = new Device(driver, 0, 0)) {
            Device.Memory memory = device.memory();
            out.printf(
                    Locale.ROOT,
                    "GPU       %s, compute capability %d.%d, %d SMs, %s of %s free, driver for CUDA %d.%d%n",
                    device.name(),
                    device.capability() / 10,
                    device.capability() % 10,
                    device.multiprocessors(),
                    new ByteSize(memory.free()),
                    new ByteSize(memory.total()),
                    device.driverVersion() / 1000,
                    device.driverVersion() % 1000 / 10);
            if (device.capability() < 80) {
                out.println("          bfloat16 is not available on this GPU; use --dtype float16");
            }
            KernelCatalogue.limitations(device.capability(), device.slice())
                    .forEach(limitation -> out.println("          " + limitation));
        }
    }

    private static void library(PrintStream out, String name, Consumer<CudaLibraries> find) {
        try {
            CudaLibraries installed = CudaBackend.libraries("system", Terminal.standardError());
            find.accept(installed);
            List<String> found = installed.found();
            out.println("Library   " + found.getLast());
        } catch (CudaException e) {
            out.println(
                    "Library   " + name + " is not installed for this driver; with a GPU, Tandem fetches it once from"
                            + " NVIDIA's Python packages");
        }
    }
}
