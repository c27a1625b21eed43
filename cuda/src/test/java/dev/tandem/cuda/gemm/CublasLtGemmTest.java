package dev.tandem.cuda.gemm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.FakeDriver;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CublasLt;
import dev.tandem.cuda.gemm.Gemm.Result;
import dev.tandem.cuda.tune.AutotuneCache;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** When cublasLt is asked for an algorithm and when the algorithm first runs. A fake stands for the library. */
class CublasLtGemmTest {
    @TempDir
    Path folder;

    private final Arena arena = Arena.ofAuto();
    private final Map<String, MemorySegment> functions = new HashMap<>();
    private final List<String> calls = new ArrayList<>();
    /** The algorithm that the fake library returns for the next shape. */
    private long algorithm = 1;

    private Stream stream;
    private DeviceBuffer memory;

    private CublasLtGemm gemms() {
        define("cublasLtCreate", this::handle, ADDRESS);
        define("cublasLtDestroy", arguments -> {}, ADDRESS);
        define("cublasLtMatmulPreferenceCreate", this::handle, ADDRESS);
        define("cublasLtMatmulPreferenceSetAttribute", arguments -> {}, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
        define("cublasLtMatmulPreferenceDestroy", arguments -> {}, ADDRESS);
        define("cublasLtMatmulDescCreate", this::handle, ADDRESS, JAVA_INT, JAVA_INT);
        define("cublasLtMatmulDescSetAttribute", arguments -> {}, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
        define("cublasLtMatmulDescDestroy", arguments -> {}, ADDRESS);
        define("cublasLtMatrixLayoutCreate", this::handle, ADDRESS, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
        define("cublasLtMatrixLayoutDestroy", arguments -> {}, ADDRESS);
        define(
                "cublasLtMatmulAlgoGetHeuristic",
                arguments -> {
                    ((MemorySegment) arguments[8])
                            .reinterpret(CublasLt.HEURISTIC_RESULT_BYTES)
                            .fill((byte) 0)
                            .set(JAVA_LONG, 0, algorithm);
                    ((MemorySegment) arguments[9]).reinterpret(4).set(JAVA_INT, 0, 1);
                },
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                JAVA_INT,
                ADDRESS,
                ADDRESS);
        define(
                "cublasLtMatmul",
                arguments -> {},
                ADDRESS,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                JAVA_LONG,
                ADDRESS);
        CublasLt library = new CublasLt(name -> Optional.ofNullable(functions.get(name)));
        Device device = new Device(new FakeDriver().driver(), 0, 0);
        stream = device.stream("test");
        memory = device.allocate(256, "operands");
        return new CublasLtGemm(library, device, DataType.BFLOAT16, AutotuneCache.open(folder, "a fake"));
    }

    private Gemm gemm(Result result) {
        return new Gemm(1, Optional.empty(), new Gemm.Shape(256, 128), memory, memory, result);
    }

    private void handle(Object[] arguments) {
        ((MemorySegment) arguments[0]).reinterpret(8).set(JAVA_LONG, 0, 4096);
    }

    private void define(String name, Consumer<Object[]> body, MemoryLayout... arguments) {
        FunctionDescriptor descriptor = FunctionDescriptor.of(JAVA_INT, arguments);
        try {
            functions.put(
                    name,
                    Linker.nativeLinker()
                            .upcallStub(
                                    MethodHandles.insertArguments(
                                                    MethodHandles.lookup()
                                                            .findVirtual(
                                                                    CublasLtGemmTest.class,
                                                                    "call",
                                                                    MethodType.methodType(
                                                                            int.class,
                                                                            String.class,
                                                                            Consumer.class,
                                                                            Object[].class)),
                                                    0,
                                                    this,
                                                    name,
                                                    body)
                                            .asCollector(Object[].class, arguments.length)
                                            .asType(descriptor.toMethodType()),
                                    descriptor,
                                    arena));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private int call(String name, Consumer<Object[]> body, Object[] arguments) {
        calls.add(name);
        body.accept(arguments);
        return 0;
    }

    private long count(String name) {
        return calls.stream().filter(name::equals).count();
    }

    @Test
    void theAlgorithmOfALoadedShapeIsNotChosenAgain() {
        try (CublasLtGemm gemms = gemms()) {
            gemms.load(stream, gemm(Result.NARROW), 64);
            assertThat(count("cublasLtMatmulAlgoGetHeuristic")).isEqualTo(1);
            assertThat(count("cublasLtMatmul")).isEqualTo(1);
            gemms.multiply(stream, gemm(Result.NARROW), 64);
            assertThat(count("cublasLtMatmulAlgoGetHeuristic")).isEqualTo(1);
            assertThat(count("cublasLtMatmul")).isEqualTo(2);
        }
    }

    @Test
    void loadingRunsEachAlgorithmOncePerResultType() {
        try (CublasLtGemm gemms = gemms()) {
            gemms.load(stream, gemm(Result.NARROW), 64);
            gemms.load(stream, gemm(Result.NARROW), 128);
            assertThat(count("cublasLtMatmul"))
                    .as("the same algorithm for more rows")
                    .isEqualTo(1);
            gemms.load(stream, gemm(Result.WIDE), 128);
            assertThat(count("cublasLtMatmul")).isEqualTo(2);
            algorithm = 2;
            gemms.load(stream, gemm(Result.NARROW), 192);
            assertThat(count("cublasLtMatmul")).isEqualTo(3);
            assertThat(count("cublasLtMatmulAlgoGetHeuristic")).isEqualTo(4);
        }
    }
}
