package dev.tandem.cuda.device;

import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.ffi.CudaDriver;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.ffi.Nvrtc;
import dev.tandem.fetch.WheelSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Finds and loads NVIDIA's libraries. libcuda comes with the driver. cublasLt and NVRTC are searched in the documented
 * places and, when they are in none, fetched as NVIDIA's Python wheels. Their major release must not be newer than the
 * driver's. Loaded libraries stay loaded.
 */
public final class CudaLibraries {
    /**
     * A major release of CUDA: the names of its libraries, and the wheels that are fetched. A driver runs the libraries
     * of its own major release, of any minor release, and of earlier major ones.
     */
    private record Release(
            int major,
            String nvrtcProject,
            String nvrtcVersion,
            String nvrtcBuiltins,
            String cublasProject,
            String cublasVersion) {
        String nvrtc() {
            return "libnvrtc.so." + major;
        }

        String cublasLt() {
            return "libcublasLt.so." + major;
        }
    }

    /** The latest first. */
    private static final List<Release> RELEASES = List.of(
            new Release(13, "nvidia-cuda-nvrtc", "13.0.88", "libnvrtc-builtins.so.13.0", "nvidia-cublas", "13.0.2.14"),
            new Release(
                    12,
                    "nvidia-cuda-nvrtc-cu12",
                    "12.9.86",
                    "libnvrtc-builtins.so.12.9",
                    "nvidia-cublas-cu12",
                    "12.9.1.4"));

    private static final List<String> DRIVER_NAMES = List.of("libcuda.so.1", "libcuda.so");

    /** The places that libraries are taken from. */
    public sealed interface Choice {
        /** The documented places, then NVIDIA's wheels. */
        record Automatic() implements Choice {}

        /** The documented places only. */
        record InstalledOnly() implements Choice {}

        /** NVIDIA's wheels. */
        record Fetched() implements Choice {}

        record Folder(Path path) implements Choice {}

        /**
         * The choice that a flag's value names.
         *
         * @param flag {@code auto}, {@code system}, {@code fetch} or a folder
         */
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
    private final OptionalInt driverVersion;
    /** Releases that the driver runs, the latest first. */
    private final List<Release> releases;

    private final List<String> found = new ArrayList<>();
    private @Nullable Nvrtc nvrtc;

    /**
     * @param wheels used only when something must be fetched
     * @param driverVersion {@link #driverVersion}; without a driver the latest libraries are taken
     */
    public CudaLibraries(
            Choice choice, Map<String, String> environment, Supplier<WheelSource> wheels, OptionalInt driverVersion) {
        this.choice = choice;
        this.environment = environment;
        this.wheels = wheels;
        this.driverVersion = driverVersion;
        int newest = driverVersion.orElse(Integer.MAX_VALUE) / 1000;
        this.releases =
                RELEASES.stream().filter(release -> release.major() <= newest).toList();
    }

    /** What was loaded from where, one line each. */
    public synchronized List<String> found() {
        return List.copyOf(found);
    }

    /** Whether CUDA_LAUNCH_BLOCKING makes every launch wait for its kernel. */
    public boolean launchesBlock() {
        String value = environment.getOrDefault("CUDA_LAUNCH_BLOCKING", "");
        return !value.isEmpty() && !value.equals("0");
    }

    /** The driver's library; empty on a machine without NVIDIA's driver. */
    public static Optional<CudaDriver> driver() {
        return DRIVER_NAMES.stream()
                .map(CudaLibraries::open)
                .flatMap(Optional::stream)
                .findFirst()
                .map(CudaDriver::new);
    }

    /** CUDA version of the driver on this machine: 13000 is 13.0. */
    public static OptionalInt driverVersion() {
        return driver().stream().mapToInt(CudaLibraries::version).findFirst();
    }

    private static int version(CudaDriver driver) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment answer = arena.allocate(ValueLayout.JAVA_INT);
            driver.cuDriverGetVersion.call(answer);
            return answer.get(ValueLayout.JAVA_INT, 0);
        }
    }

    private static String version(int version) {
        return version / 1000 + "." + version % 1000 / 10;
    }

    /**
     * The major release of CUDA whose libraries are fetched and preferred. Machine code of a release does not run on
     * drivers of an earlier one.
     */
    public int release() {
        return preferred().major();
    }

    private Release preferred() {
        return releases.stream()
                .findFirst()
                .orElseThrow(
                        () -> new CudaException("NVIDIA's driver is for CUDA " + version(driverVersion.orElseThrow())
                                + ", and there are no libraries for it; update the driver, or run on "
                                + "the CPU with --device cpu"));
    }

    /** NVRTC, found and loaded at the first call. */
    public synchronized Nvrtc nvrtc() {
        if (nvrtc == null) {
            nvrtc = new Nvrtc(find("NVRTC", Release::nvrtc, this::fetchNvrtc));
        }
        return nvrtc;
    }

    /** cublasLt, found and loaded at each call. */
    public synchronized CublasLt cublasLt() {
        return new CublasLt(find("cublasLt", Release::cublasLt, this::fetchCublasLt));
    }

    private Path fetchNvrtc() {
        Release release = preferred();
        wheels.get().fetch(release.nvrtcProject(), release.nvrtcVersion(), release.nvrtcBuiltins());
        return wheels.get().fetch(release.nvrtcProject(), release.nvrtcVersion(), release.nvrtc());
    }

    private Path fetchCublasLt() {
        Release release = preferred();
        return wheels.get().fetch(release.cublasProject(), release.cublasVersion(), release.cublasLt());
    }

    private SymbolLookup find(String what, Function<Release, String> name, Supplier<Path> fetch) {
        List<String> tried = new ArrayList<>();
        List<String> tooNew = new ArrayList<>();
        if (!(choice instanceof Choice.Fetched)) {
            for (Path folder : folders()) {
                for (Release release : RELEASES) {
                    Path file = folder.resolve(name.apply(release));
                    if (releases.contains(release)) {
                        tried.add(file.toString());
                    }
                    if (Files.exists(file)) {
                        if (releases.contains(release)) {
                            return load(what, file);
                        }
                        tooNew.add(file + " needs a driver for CUDA " + release.major()
                                + ".0 or later, and this machine's is for CUDA "
                                + version(driverVersion.orElseThrow()));
                    }
                }
            }
            if (!(choice instanceof Choice.Folder)) {
                for (Release release : releases) {
                    tried.add(name.apply(release) + " (the loader's path)");
                    Optional<SymbolLookup> library = open(name.apply(release));
                    if (library.isPresent()) {
                        found.add(what + ": " + name.apply(release) + ", by the loader");
                        return library.get();
                    }
                }
            }
        }
        if (choice instanceof Choice.Automatic || choice instanceof Choice.Fetched) {
            tooNew.forEach(reason -> found.add(what + " not taken: " + reason));
            return load(what + " (fetched)", fetch.get());
        }
        throw new CudaException("NVIDIA's " + what + " library was not found. Tried: " + String.join(", ", tried)
                + (tooNew.isEmpty() ? "" : ". Not taken: " + String.join("; ", tooNew)) + ". Install CUDA "
                + release()
                + ", or name its folder with --cuda-libraries=PATH, or let Tandem fetch it with "
                + "--cuda-libraries=fetch");
    }

    private SymbolLookup load(String what, Path file) {
        // NVRTC opens its builtins by bare name, which finds a loaded library of that name
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
            versions.filter(path -> path.getFileName().toString().startsWith("python3"))
                    .sorted()
                    .forEach(version -> {
                        for (String packages : List.of("site-packages", "dist-packages")) {
                            for (String part : List.of("cu13", "cublas", "cuda_nvrtc")) {
                                folders.add(version.resolve(packages)
                                        .resolve("nvidia")
                                        .resolve(part)
                                        .resolve("lib"));
                            }
                        }
                    });
        } catch (IOException | java.io.UncheckedIOException unreadable) {
            return folders;
        }
        return folders;
    }
}
