package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.ffi.Nvrtc;
import dev.tandem.cuda.kernels.KernelCatalogue;
import dev.tandem.cuda.kernels.KernelCatalogue.Unit;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.KernelCompiler.Usage;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Every kernel compiles for every GPU it is meant for, on a machine that has none. */
class KernelCompilationTest {
    private static final Nvrtc NVRTC = GpuRig.libraries().nvrtc();

    @TempDir
    Path cache;

    static Stream<Arguments> capabilitiesAndTypes() {
        return KernelCatalogue.CAPABILITIES.stream()
                .flatMap(capability -> KernelCatalogue.types(capability).stream().map(type -> Arguments.of(capability, type)));
    }

    @ParameterizedTest
    @MethodSource("capabilitiesAndTypes")
    void everySpecialisationCompilesWithoutSpilling(int capability, DataType type) {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache);
        Set<Unit> units = new LinkedHashSet<>();
        for (ModelShape shape : KernelCatalogue.models(type)) {
            for (Unit unit : KernelCatalogue.units(shape, capability, KernelCatalogue.sharedMemory(capability))) {
                boolean products = Set.of("skinny", "stream", "broad", "many").contains(unit.source());
                // products depend on no head size: the first model's stand for all
                if (!products || shape.equals(KernelCatalogue.models(type).getFirst())) {
                    units.add(unit);
                }
            }
        }
        units.stream().toList().parallelStream().forEach(unit -> {
            for (Usage usage : compiler.compile(unit.source(), capability, unit.defines()).usage()) {
                assertThat(usage.registers()).as("%s for %d", usage.kernel(), capability).isPositive();
                assertThat(usage.spilledBytes())
                        .as("%s for %d with %s", usage.kernel(), capability, unit.defines())
                        .isLessThanOrEqualTo(allowed(usage.kernel(), unit));
            }
        });
    }

    static Stream<Integer> capabilities() {
        return KernelCatalogue.CAPABILITIES.stream();
    }

    /** For {@link DelayedKernelTest}: delays may cost registers, not meaning. */
    @ParameterizedTest
    @MethodSource("capabilities")
    void kernelsWithDelaysCompile(int capability) {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache).withDelays(1);
        ModelShape shape = KernelCatalogue.models(KernelCatalogue.types(capability).getFirst()).get(2);
        KernelCatalogue.units(shape, capability, KernelCatalogue.sharedMemory(capability)).stream()
                .filter(unit -> Set.of("rows", "decode", "prefill", "prefill_groups", "sample", "flights")
                        .contains(unit.source()))
                .forEach(unit -> assertThat(compiler.compile(unit.source(), capability, unit.defines()).cubin())
                        .as("%s for %d", unit.source(), capability)
                        .isNotEmpty());
    }

    /** Heads of 256 need more registers in attention than there are. */
    private static int allowed(String kernel, Unit unit) {
        return kernel.endsWith("_attention") && unit.defines().contains("-DHEAD_WIDTH=256") ? 2000 : 0;
    }

    @Test
    void damagedCacheIsHealed() throws IOException {
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
        assertThat(second.compiled()).as("damaged, so compiled again").isEqualTo(1);
        try (Stream<Path> files = Files.list(cache)) {
            Files.write(files.findFirst().orElseThrow(), new byte[5]);
        }
        assertThat(second.cubin("rows", 90, defines)).isEqualTo(cubin);
    }

    @Test
    void sourceThatDoesNotCompileIsSaid() {
        KernelCompiler compiler = new KernelCompiler(() -> NVRTC, cache);
        assertThatThrownBy(() -> compiler.cubin("rows", 90, List.of()))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("rows.cu does not compile")
                .hasMessageContaining("HIDDEN");
    }

    @Test
    void missingLibraryNamesEveryPlace() {
        CudaLibraries libraries = new CudaLibraries(
                new CudaLibraries.Choice.Folder(cache), Map.of(), () -> {
                    throw new AssertionError("nothing may be fetched when a folder is given");
                });
        assertThatThrownBy(libraries::cublasLt)
                .isInstanceOf(CudaException.class)
                .hasMessageContaining(cache.resolve("libcublasLt.so.13").toString())
                .hasMessageContaining("--cuda-libraries");
    }

    @Test
    void shapesBeyondTheKernelsAreRefused() {
        assertThatThrownBy(() -> GpuRig.shape(4, 4, 512, 64, 64, 301, DataType.BFLOAT16))
                .isInstanceOf(CudaException.class)
                .hasMessageContaining("512")
                .hasMessageContaining("--device cpu");
        assertThatThrownBy(() -> GpuRig.shape(4, 4, 64, 64, 64, 301, DataType.FLOAT32)).hasMessageContaining("--dtype float32");
    }
}
