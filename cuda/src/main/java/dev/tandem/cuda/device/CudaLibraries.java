package dev.tandem.cuda.device;

import dev.tandem.cuda.CudaException;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.ffi.CudaDriver;
import dev.tandem.cuda.ffi.Nvrtc;
import dev.tandem.fetch.WheelSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Finds NVIDIA's libraries. The driver's libcuda comes with the driver; cublasLt and NVRTC are looked for in the documented
 * places and, if they are in none, fetched as NVIDIA's Python wheels. Loaded libraries stay loaded.
 */
public final class CudaLibraries {
    /** Wheels that work with drivers of CUDA 13.0 and later. */
    private static final String NVRTC_PROJECT = "nvidia-cuda-nvrtc";
    private static final String NVRTC_VERSION = "13.0.88";
    private static final String CUBLAS_PROJECT = "nvidia-cublas";
    private static final String CUBLAS_VERSION = "13.0.2.14";

    private static final List<String> DRIVER_NAMES = List.of("libcuda.so.1", "libcuda.so");
    private static final List<String> NVRTC_NAMES = List.of("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so");
    private static final List<String> CUBLAS_NAMES = List.of("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so");

    /** Where libraries may come from. */
    public sealed interface Choice {
        /** The documented places, then NVIDIA's wheels. */
        record Automatic() implements Choice {}

        /** The documented places only. */
        record InstalledOnly() implements Choice {}

        /** NVIDIA's wheels. */
        record Fetched() implements Choice {}

        record Folder(Path path) implements Choice {}

        /** @param flag {@code auto}, {@code system}, {@code fetch} or a folder */
        static Choice of(String flag) {
            return switch (flag) {
                case "auto" -> new Automatic();
                case "system" -> new InstalledOnly();
                case "fetch" -> new Fetched();
                default -> new Folder(Path.of(flag));
            };
        }
    }

    private final Choice choice;
    private final Map<String, String> environment;
    private final Supplier<WheelSource> wheels;
    private final List<String> found = new ArrayList<>();
    private Nvrtc nvrtc;

    /** @param wheels asked for only when something must be fetched */
    public CudaLibraries(Choice choice, Map<String, String> environment, Supplier<WheelSource> wheels) {
        this.choice = choice;
        this.environment = environment;
        this.wheels = wheels;
    }

    /** What was loaded from where, one line each. */
    public synchronized List<String> found() {
        return List.copyOf(found);
    }

    /** Whether the environment has every launch wait for its kernel, as CUDA offers for debugging. */
    public boolean launchesBlock() {
        String value = environment.getOrDefault("CUDA_LAUNCH_BLOCKING", "");
        return !value.isEmpty() && !value.equals("0");
    }

    /** Empty on a machine without NVIDIA's driver. */
    public static Optional<CudaDriver> driver() {
        return DRIVER_NAMES.stream()
                .map(CudaLibraries::open)
                .flatMap(Optional::stream)
                .findFirst()
                .map(CudaDriver::new);
    }

    /** Found once, by whichever thread needs it first. */
    public synchronized Nvrtc nvrtc() {
        if (nvrtc == null) {
            nvrtc = new Nvrtc(find("NVRTC", NVRTC_NAMES, this::fetchNvrtc));
        }
        return nvrtc;
    }

    public synchronized CublasLt cublasLt() {
        return new CublasLt(find("cublasLt", CUBLAS_NAMES, () -> wheels.get().fetch(CUBLAS_PROJECT, CUBLAS_VERSION, "libcublasLt.so.13")));
    }

    private Path fetchNvrtc() {
        wheels.get().fetch(NVRTC_PROJECT, NVRTC_VERSION, "libnvrtc-builtins.so.13.0");
        return wheels.get().fetch(NVRTC_PROJECT, NVRTC_VERSION, "libnvrtc.so.13");
    }

    private SymbolLookup find(String what, List<String> names, Supplier<Path> fetch) {
        List<String> tried = new ArrayList<>();
        if (!(choice instanceof Choice.Fetched)) {
            for (Path folder : folders()) {
                for (String name : names) {
                    Path file = folder.resolve(name);
                    tried.add(file.toString());
                    if (Files.exists(file)) {
                        return load(what, file);
                    }
                }
            }
            if (!(choice instanceof Choice.Folder)) {
                for (String name : names) {
                    tried.add(name + " (the loader's path)");
                    Optional<SymbolLookup> library = open(name);
                    if (library.isPresent()) {
                        found.add(what + ": " + name + ", by the loader");
                        return library.get();
                    }
                }
            }
        }
        if (choice instanceof Choice.Automatic || choice instanceof Choice.Fetched) {
            return load(what + " (fetched)", fetch.get());
        }
        throw new CudaException("NVIDIA's " + what + " library was not found. Tried: " + String.join(", ", tried)
                + ". Install CUDA 13, or name its folder with --cuda-libraries=PATH, or let Tandem fetch it with --cuda-libraries=fetch");
    }

    private SymbolLookup load(String what, Path file) {
        // NVRTC opens its builtins by bare name: a library of that name that is already loaded is found
        try (Stream<Path> siblings = Files.list(file.toAbsolutePath().getParent())) {
            siblings.filter(sibling -> what.startsWith("NVRTC"))
                    .filter(sibling -> sibling.getFileName().toString().startsWith("libnvrtc-builtins.so"))
                    .forEach(sibling -> SymbolLookup.libraryLookup(sibling, Arena.global()));
            SymbolLookup library = SymbolLookup.libraryLookup(file, Arena.global());
            found.add(what + ": " + file);
            return library;
        } catch (IOException | IllegalArgumentException e) {
            throw new CudaException(file + " cannot be loaded: " + e.getMessage(), e);
        }
    }

    private static Optional<SymbolLookup> open(String name) {
        try {
            return Optional.of(SymbolLookup.libraryLookup(name, Arena.global()));
        } catch (IllegalArgumentException absent) {
            return Optional.empty();
        }
    }

    private List<Path> folders() {
        if (choice instanceof Choice.Folder folder) {
            return List.of(folder.path());
        }
        List<Path> folders = new ArrayList<>();
        for (String variable : List.of("CUDA_HOME", "CUDA_PATH")) {
            if (!environment.getOrDefault(variable, "").isBlank()) {
                folders.add(Path.of(environment.get(variable), "lib64"));
                folders.add(Path.of(environment.get(variable), "targets/x86_64-linux/lib"));
            }
        }
        folders.add(Path.of("/usr/local/cuda/lib64"));
        folders.add(Path.of("/usr/local/cuda/targets/x86_64-linux/lib"));
        pythonEnvironments().forEach(environment -> folders.addAll(wheelFolders(environment)));
        return folders;
    }

    private Stream<Path> pythonEnvironments() {
        return Stream.concat(
                Stream.of("VIRTUAL_ENV", "CONDA_PREFIX")
                        .map(variable -> environment.getOrDefault(variable, ""))
                        .filter(value -> !value.isBlank())
                        .map(Path::of),
                Stream.of(environment.getOrDefault("PATH", "").split(":"))
                        .map(Path::of)
                        .filter(folder -> Files.exists(folder.resolve("python3")))
                        .map(Path::getParent)
                        .filter(parent -> parent != null));
    }

    /** {@code lib/python3.X/{site,dist}-packages/nvidia/{cu13,cublas,cuda_nvrtc}/lib} of one environment. */
    private static List<Path> wheelFolders(Path environment) {
        List<Path> folders = new ArrayList<>();
        try (Stream<Path> versions = Files.list(environment.resolve("lib"))) {
            versions.filter(path -> path.getFileName().toString().startsWith("python3")).sorted().forEach(version -> {
                for (String packages : List.of("site-packages", "dist-packages")) {
                    for (String part : List.of("cu13", "cublas", "cuda_nvrtc")) {
                        folders.add(version.resolve(packages).resolve("nvidia").resolve(part).resolve("lib"));
                    }
                }
            });
        } catch (IOException | java.io.UncheckedIOException unreadable) {
            return folders;
        }
        return folders;
    }
}
