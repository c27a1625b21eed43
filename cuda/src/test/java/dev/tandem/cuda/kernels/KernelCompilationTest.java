package dev.tandem.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.ffi.Nvrtc;
import dev.tandem.cuda.kernels.KernelCatalogue.Entry;
import dev.tandem.cuda.kernels.KernelCatalogue.Unit;
import dev.tandem.cuda.kernels.KernelCompiler.Usage;
import dev.tandem.fetch.Progress;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Every kernel compiles for every supported GPU. The machine needs no GPU. Tests with the tag {@code slow} compile for
 * the GPUs that Tandem is not measured on.
 */
class KernelCompilationTest {
    private static final Nvrtc NVRTC = GpuRig.libraries().nvrtc();

    @TempDir
    Path cache;

    /**
     * The first compute capability of each generation. Others of a generation have the same instructions, and fewer
     * kernels are compiled for them.
     */
    private static final Set<Integer> FIRST = Set.of(75, 80, 90, 100, 120);
    /** The capability of the GPUs that Tandem is measured on. */
    private static final int MEASURED = 90;
    /** The newest instructions, with little shared memory. */
    private static final int NEWEST = 120;
    /**
     * Of {@link KernelCatalogue#models}: heads of 256, which need the largest stages and the most registers,
     * Llama-3.1-70B, OLMo-3-32B and Gemma-3-27B.
     */
    private static final Set<Integer> LARGEST = Set.of(3, 6, 11, 12);
    /** Of these models, Gemma-3-27B, whose GEMMs have GELU. */
    private static final int GELU = 12;
    /** Registers of a multiprocessor, on every compute capability. A thread's registers are a multiple of eight. */
    private static final int REGISTERS = 64 << 10;

    /** Attention over these needs all registers. */
    private static final String LARGEST_HEADS = "-DHEAD_WIDTH=256";

    /** A source file with its options, and the compute capability to compile it for. */
    private record Target(int capability, Unit unit) {}

    static Stream<Integer> otherCapabilities() {
        return KernelCatalogue.CAPABILITIES.stream().filter(capability -> capability != MEASURED);
    }

    static Stream<Integer> otherFirstCapabilities() {
        return FIRST.stream().filter(capability -> capability != MEASURED).sorted();
    }

    /**
     * What is compiled for a compute capability. Row-wise kernels and attention depend on the shape: the first
     * capability of a generation has all shapes, and others have the largest. Other kernels have one shape, and GEMMs
     * of the most rows a second, with GELU. Types alternate over shapes, except that the measured capability has both
     * types of the first shape. All capabilities together need about 300 compilations of half a second each.
     *
     * @param first whether the capability stands for its generation
     */
    private static Set<Target> targets(int capability, boolean first) {
        Set<Target> targets = new LinkedHashSet<>();
        List<DataType> types = KernelCatalogue.types(capability);
        for (DataType type : types) {
            List<ModelShape> models = KernelCatalogue.models(type);
            for (int model = 0; model < models.size(); model++) {
                boolean turn = capability == MEASURED && model == 0
                        || types.indexOf(type) == (model + capability) % types.size();
                for (Unit unit : KernelCatalogue.units(
                        models.get(model), capability, KernelCatalogue.sharedMemory(capability))) {
                    if (turn && compiles(unit, model, first)) {
                        targets.add(new Target(capability, unit));
                    }
                }
            }
        }
        return targets;
    }

    private static boolean compiles(Unit unit, int model, boolean first) {
        return switch (unit.source()) {
            case "rows", "decode", "prefill", "prefill_wgmma" -> first || LARGEST.contains(model);
            case "gemv", "gemv_tma" ->
                model == 0 && (first || tiles(unit, Kernels.TILES.getFirst()) || tiles(unit, Kernels.TILES.getLast()))
                        || model == GELU && tiles(unit, Kernels.TILES.getLast());
            case "gemm_wgmma" ->
                model == 0 || model == GELU && unit.defines().contains("-DTOKENS=" + Kernels.WGMMA_ROWS.getLast());
            case "gemm_swiglu" -> model == 0 || model == GELU;
            default -> model == 0;
        };
    }

    private static boolean tiles(Unit unit, int tiles) {
        return unit.defines().contains("-DTILES=" + tiles);
    }

    @Test
    void everyKernelFitsTheMeasuredGpuWithoutSpilling() {
        compileAndCheck(targets(MEASURED, true));
    }

    @Test
    void kernelsOfTheLargestShapesFitTheNewestGpu() {
        compileAndCheck(targets(NEWEST, false));
    }

    @Tag("slow")
    @ParameterizedTest
    @MethodSource("otherCapabilities")
    void everyKernelFitsItsGpuWithoutSpilling(int capability) {
        compileAndCheck(targets(capability, FIRST.contains(capability)));
    }

    @Test
    void attentionWithinAWindowFitsTheMeasuredGpu() {
        assertWindowedAttentionFits(MEASURED);
    }

    @Tag("slow")
    @ParameterizedTest
    @ValueSource(ints = {75, 120})
    void attentionWithinAWindowFitsItsGpu(int capability) {
        assertWindowedAttentionFits(capability);
    }

    /** Models with a sliding window have attention kernels of their own. */
    private void assertWindowedAttentionFits(int capability) {
        List<ModelShape> models =
                KernelCatalogue.models(KernelCatalogue.types(capability).getFirst());
        Set<Target> targets = new LinkedHashSet<>();
        for (int model : new int[] {0, 2, 3}) {
            KernelCatalogue.units(
                            GpuRig.windowed(models.get(model), 100),
                            capability,
                            KernelCatalogue.sharedMemory(capability))
                    .stream()
                    .filter(unit -> Set.of("decode", "prefill", "prefill_wgmma").contains(unit.source()))
                    .forEach(unit -> targets.add(new Target(capability, unit)));
        }
        assertThat(targets).hasSize(6);
        compileAndCheck(targets);
    }

    private void compileAndCheck(Set<Target> targets) {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache);
        targets.parallelStream().forEach(target -> check(compiler, target));
    }

    private static void check(KernelCompiler compiler, Target target) {
        Unit unit = target.unit();
        Map<String, Usage> usage = compiler.compile(unit.source(), target.capability(), unit.defines()).usage().stream()
                .collect(Collectors.toMap(Usage::kernel, Function.identity()));
        assertThat(usage.keySet())
                .as("kernels of %s.cu", unit.source())
                .containsExactlyInAnyOrderElementsOf(
                        unit.entries().stream().map(Entry::kernel).toList());
        for (Entry entry : unit.entries()) {
            Usage used = usage.get(entry.kernel());
            String what = entry.kernel() + " for " + target.capability() + " with " + unit.defines();
            assertThat(used.registers()).as("registers of %s", what).isPositive();
            int registers = (used.registers() + 7) / 8 * 8 * entry.threads();
            assertThat(registers).as("registers of a block of %s", what).isLessThanOrEqualTo(REGISTERS);
            assertThat(used.staticSharedBytes() + entry.sharedBytes())
                    .as("static and dynamic shared memory of %s", what)
                    .isLessThanOrEqualTo(KernelCatalogue.sharedMemory(target.capability()));
            assertThat(used.spilledBytes())
                    .as("spills of %s", what)
                    .isLessThanOrEqualTo(allowed(entry.kernel(), target));
        }
    }

    /** The kernels of {@code DelayedKernelTest} compile. Their registers and spills do not matter. */
    @Test
    void kernelsWithDelaysCompile() {
        compileWithDelays(MEASURED);
    }

    @Tag("slow")
    @ParameterizedTest
    @MethodSource("otherFirstCapabilities")
    void kernelsWithDelaysCompileForOtherGpus(int capability) {
        compileWithDelays(capability);
    }

    private void compileWithDelays(int capability) {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache).withDelays(1);
        ModelShape shape = KernelCatalogue.models(
                        KernelCatalogue.types(capability).getFirst())
                .get(2);
        assertThat(compiler.compile(KernelCatalogue.memoryLoad(shape).source(), capability, shape.defines())
                        .cubin())
                .isNotEmpty();
        KernelCatalogue.units(shape, capability, KernelCatalogue.sharedMemory(capability)).stream()
                .filter(unit -> Set.of("rows", "decode", "prefill", "prefill_wgmma", "sample", "host_transfer")
                        .contains(unit.source()))
                .forEach(unit -> assertThat(compiler.compile(unit.source(), capability, unit.defines())
                                .cubin())
                        .as("%s for %d", unit.source(), capability)
                        .isNotEmpty());
    }

    /**
     * Max spilled bytes of a kernel. Attention over heads of 256 needs more registers than a thread can have. Some
     * kernels spill a few words on GPUs that were never measured: without spills a multiprocessor would hold one block
     * less.
     */
    private static int allowed(String kernel, Target target) {
        if (kernel.endsWith("_attention") && target.unit().defines().contains(LARGEST_HEADS)) {
            return 2000;
        }
        boolean few = kernel.equals("sample") && target.capability() == 103
                || kernel.equals("rope_store") && target.capability() == 75
                || kernel.startsWith("add_norm")
                        && target.capability() != MEASURED
                        && target.unit().defines().contains("-DNORMS_ON_OUTPUTS=1");
        return few ? 32 : 0;
    }

    @Test
    void aDamagedCacheEntryIsReplaced() throws IOException {
        ModelShape shape = KernelCatalogue.models(DataType.FLOAT16).getFirst();
        List<String> defines = shape.defines();
        KernelCompiler first = new KernelCompiler(() -> NVRTC, cache);
        byte[] cubin = first.cubin("rows", 90, defines);
        assertThat(first.compiled()).isEqualTo(1);
        KernelCompiler second = new KernelCompiler(() -> NVRTC, cache);
        assertThat(second.cubin("rows", 90, defines)).isEqualTo(cubin);
        assertThat(second.compiled()).as("found in the cache").isZero();
        try (Stream<Path> files = Files.list(cache)) {
            Path file = files.findFirst().orElseThrow();
            byte[] bytes = Files.readAllBytes(file);
            bytes[bytes.length / 2] ^= 1;
            Files.write(file, bytes);
        }
        assertThat(second.cubin("rows", 90, defines)).isEqualTo(cubin);
        assertThat(second.compiled()).as("a damaged entry is compiled again").isEqualTo(1);
        try (Stream<Path> files = Files.list(cache)) {
            Files.write(files.findFirst().orElseThrow(), new byte[5]);
        }
        assertThat(second.cubin("rows", 90, defines)).isEqualTo(cubin);
    }

    @Test
    void progressCountsTheUnitsThatAreNotInTheCache() {
        ModelShape shape = KernelCatalogue.models(DataType.FLOAT16).getFirst();
        List<Unit> units = KernelCatalogue.units(shape, 90, KernelCatalogue.sharedMemory(90)).stream()
                .filter(unit -> Set.of("rows", "sample", "host_transfer").contains(unit.source()))
                .toList();
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache);
        byte[] kept = compiler.cubin(units.get(1).source(), 90, units.get(1).defines());
        List<String> reports = new ArrayList<>();
        Progress progress = (what, done, total) -> reports.add(what + " " + done + "/" + total);
        List<byte[]> cubins = compiler.cubins(units, 90, progress);
        assertThat(reports).containsExactly("compiling kernels 0/2", "compiling kernels 1/2", "compiling kernels 2/2");
        assertThat(cubins).hasSize(3);
        assertThat(cubins.get(1)).as("units keep their order").isEqualTo(kept);
        assertThat(compiler.cubins(units, 90, progress)).containsExactlyElementsOf(cubins);
        assertThat(reports).as("nothing is left to compile").hasSize(3);
    }

    @Test
    void compilationErrorsNameTheSourceFile() {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache);
        assertThatThrownBy(() -> compiler.cubin("rows", 90, List.of()))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("rows.cu does not compile")
                .hasMessageContaining("HIDDEN");
    }

    @Test
    void unsupportedShapesAreRejected() {
        assertThatThrownBy(() -> GpuRig.shape(4, 4, 512, 64, 64, 301, DataType.BFLOAT16))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("512")
                .hasMessageContaining("--device cpu");
        assertThatThrownBy(() -> GpuRig.shape(4, 4, 64, 64, 64, 301, DataType.FLOAT32))
                .hasMessageContaining("--dtype float32");
    }
}
