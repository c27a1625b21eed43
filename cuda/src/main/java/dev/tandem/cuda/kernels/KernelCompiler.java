package dev.tandem.cuda.kernels;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.ffi.Nvrtc;
import dev.tandem.fetch.CacheFile;
import dev.tandem.fetch.Progress;
import dev.tandem.fetch.ProgressCounter;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * Compiles kernel sources to machine code for one compute capability. Results are kept on disk under the hash of source
 * and options. Each file begins with its own hash, so that a damaged file is compiled again.
 *
 * <p>Any thread; compilations may run side by side.
 */
public final class KernelCompiler {
    private static final String PRELUDE = "prelude";
    /** Sources joined in front of a source, after the prelude. */
    private static final Map<String, List<String>> INCLUDES = Map.of(
            "gemv_tma", List.of("barriers"),
            "gemm_wgmma", List.of("barriers", "warpgroups"),
            "gemm_swiglu", List.of("barriers", "warpgroups"),
            "prefill", List.of("tiles"),
            "prefill_wgmma", List.of("barriers", "tiles", "warpgroups"));

    /** Bytes of a SHA-256 hash. */
    private static final int HASH_BYTES = 32;

    private final Supplier<Nvrtc> nvrtc;
    private final Path cache;
    private final List<String> variant;
    private final AtomicInteger compiled = new AtomicInteger();

    /** @param nvrtc used when something is not in the cache */
    public KernelCompiler(Supplier<Nvrtc> nvrtc, Path cache) {
        this(nvrtc, cache, List.of());
    }

    private KernelCompiler(Supplier<Nvrtc> nvrtc, Path cache, List<String> variant) {
        this.nvrtc = nvrtc;
        this.cache = cache;
        this.variant = variant;
    }

    /**
     * A compiler of kernels that sleep at random around each flag that another thread block, another kernel or the CPU
     * waits for, so that missing synchronisation shows. It has a cache of its own, so that measurements of these
     * kernels are never reused.
     *
     * @param seed of the random delays
     */
    public KernelCompiler withDelays(int seed) {
        return new KernelCompiler(nvrtc, cache.resolve("delays-" + seed), List.of("-DSTRESS_DELAY=" + seed));
    }

    /** Where compiled kernels are kept. */
    public Path cache() {
        return cache;
    }

    /** A hash of the sources. */
    public static String version(List<String> sources) {
        String text = sources.stream().map(KernelCompiler::text).collect(Collectors.joining());
        return HexFormat.of().formatHex(hash(text.getBytes(StandardCharsets.UTF_8)), 0, 8);
    }

    /** How many sources were compiled, rather than found in the cache. */
    public int compiled() {
        return compiled.get();
    }

    /**
     * The assembler's report of one kernel.
     *
     * @param spilledBytes including those of the functions that it calls
     * @param staticSharedBytes shared memory that the kernel declares, aligned for the dynamic memory after it
     */
    public record Usage(String kernel, int registers, int spilledBytes, int staticSharedBytes) {}

    /**
     * A source with all that decides its machine code.
     *
     * @param file where the machine code is kept
     */
    private record Source(String name, String text, List<String> options, Path file) {}

    /** Machine code, with the compiler's log. */
    public record Compiled(byte[] cubin, String log) {
        private static final Pattern ENTRY = Pattern.compile("Compiling entry function '(\\w+)'");
        private static final Pattern SPILLS = Pattern.compile("(\\d+) bytes spill stores");
        private static final Pattern REGISTERS = Pattern.compile("Used (\\d+) registers");
        private static final Pattern SHARED = Pattern.compile("(\\d+) bytes smem");

        /** Registers, spills and shared memory of each kernel. */
        public List<Usage> usage() {
            List<Usage> usage = new ArrayList<>();
            Matcher entry = ENTRY.matcher(log);
            int from = entry.find() ? entry.start() : log.length();
            while (from < log.length()) {
                String kernel = entry.group(1);
                int end = entry.find() ? entry.start() : log.length();
                String section = log.substring(from, end);
                usage.add(new Usage(kernel, sum(REGISTERS, section), sum(SPILLS, section), sum(SHARED, section)));
                from = end;
            }
            return usage;
        }

        private static int sum(Pattern pattern, String section) {
            return pattern.matcher(section)
                    .results()
                    .mapToInt(result -> Integer.parseInt(result.group(1)))
                    .sum();
        }
    }

    /**
     * Compiles a source, or takes it from the cache.
     *
     * @param source name of a resource of this package
     * @param capability 90 for 9.0
     */
    public byte[] cubin(String source, int capability, List<String> defines) {
        Source one = source(source, capability, defines);
        return find(one.file()).orElseGet(() -> compileAndKeep(one));
    }

    /**
     * Likewise for each unit, several at a time.
     *
     * @param progress counts the units that are not in the cache
     */
    List<byte[]> cubins(List<KernelCatalogue.Unit> units, int capability, Progress progress) {
        List<Source> sources = units.stream()
                .map(unit -> source(unit.source(), capability, unit.defines()))
                .toList();
        List<Optional<byte[]>> found =
                sources.parallelStream().map(source -> find(source.file())).toList();
        int missing = (int) found.stream().filter(Optional::isEmpty).count();
        ProgressCounter counter = new ProgressCounter(progress, "compiling kernels", missing);
        return IntStream.range(0, sources.size())
                .parallel()
                .mapToObj(i -> found.get(i).orElseGet(() -> {
                    byte[] cubin = compileAndKeep(sources.get(i));
                    counter.finished();
                    return cubin;
                }))
                .toList();
    }

    private Source source(String name, int capability, List<String> defines) {
        String text = text(name);
        List<String> options = new ArrayList<>(List.of(architecture(capability)));
        options.addAll(defines);
        options.addAll(variant);
        Path file = cache.resolve(
                HexFormat.of().formatHex(hash((text + options).getBytes(StandardCharsets.UTF_8))) + ".cubin");
        return new Source(name, text, options, file);
    }

    private byte[] compileAndKeep(Source source) {
        byte[] cubin = compile(source.name(), source.text(), source.options()).cubin();
        keep(source.file(), cubin);
        return cubin;
    }

    /** Compiles without looking at the cache. */
    public Compiled compile(String source, int capability, List<String> defines) {
        List<String> options = new ArrayList<>(List.of(architecture(capability), "--ptxas-options=-v"));
        options.addAll(defines);
        options.addAll(variant);
        return compile(source, text(source), options);
    }

    private static String architecture(int capability) {
        return "--gpu-architecture=sm_" + capability + (capability == KernelCatalogue.WARP_GROUPS ? "a" : "");
    }

    private static String text(String source) {
        StringBuilder text = new StringBuilder(read(PRELUDE));
        INCLUDES.getOrDefault(source, List.of())
                .forEach(include -> text.append('\n').append(read(include)));
        return text.append('\n').append(read(source)).toString();
    }

    private static String read(String source) {
        try (InputStream in = KernelCompiler.class.getResourceAsStream(source + ".cu")) {
            if (in == null) {
                throw new IllegalArgumentException("no kernel source is called " + source);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Compiled compile(String source, String text, List<String> options) {
        Nvrtc compiler = nvrtc.get();
        compiled.incrementAndGet();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ADDRESS);
            compiler.nvrtcCreateProgram.call(
                    handle,
                    arena.allocateFrom(text),
                    arena.allocateFrom(source + ".cu"),
                    0,
                    MemorySegment.NULL,
                    MemorySegment.NULL);
            MemorySegment program = handle.get(ADDRESS, 0);
            try {
                MemorySegment arguments = arena.allocate(ADDRESS, options.size());
                for (int i = 0; i < options.size(); i++) {
                    arguments.setAtIndex(ADDRESS, i, arena.allocateFrom(options.get(i)));
                }
                int code = compiler.nvrtcCompileProgram.code(program, options.size(), arguments);
                String log = log(compiler, program, arena);
                if (code != 0) {
                    throw new CudaException("kernel source " + source + ".cu does not compile with " + options + " ("
                            + code + "): " + log);
                }
                MemorySegment size = arena.allocate(JAVA_LONG);
                compiler.nvrtcGetCUBINSize.call(program, size);
                MemorySegment cubin = arena.allocate(size.get(JAVA_LONG, 0));
                compiler.nvrtcGetCUBIN.call(program, cubin);
                return new Compiled(cubin.toArray(ValueLayout.JAVA_BYTE), log);
            } finally {
                compiler.nvrtcDestroyProgram.call(handle);
            }
        }
    }

    private static String log(Nvrtc compiler, MemorySegment program, Arena arena) {
        MemorySegment size = arena.allocate(JAVA_LONG);
        compiler.nvrtcGetProgramLogSize.call(program, size);
        MemorySegment log = arena.allocate(Math.max(1, size.get(JAVA_LONG, 0)));
        compiler.nvrtcGetProgramLog.call(program, log);
        return log.getString(0);
    }

    private static Optional<byte[]> find(Path file) {
        try {
            byte[] kept = Files.readAllBytes(file);
            if (kept.length > HASH_BYTES) {
                byte[] cubin = Arrays.copyOfRange(kept, HASH_BYTES, kept.length);
                if (Arrays.equals(hash(cubin), Arrays.copyOf(kept, HASH_BYTES))) {
                    return Optional.of(cubin);
                }
            }
            return Optional.empty();
        } catch (IOException absent) {
            return Optional.empty();
        }
    }

    private void keep(Path file, byte[] cubin) {
        try {
            byte[] kept = Arrays.copyOf(hash(cubin), HASH_BYTES + cubin.length);
            System.arraycopy(cubin, 0, kept, HASH_BYTES, cubin.length);
            CacheFile.write(file, kept);
        } catch (IOException e) {
            throw new CudaException(
                    "the kernel cache " + cache + " cannot be written: " + e
                            + "; set TANDEM_CACHE to a folder that can",
                    e);
        }
    }

    /** SHA-256. */
    public static byte[] hash(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
