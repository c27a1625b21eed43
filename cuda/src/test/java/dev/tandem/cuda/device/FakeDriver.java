package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.ffi.CudaDriver;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A CUDA driver without a GPU: it answers with the codes that a test sets and remembers what was called. */
public final class FakeDriver {
    private static final int HANDLE = 4096;

    /** What one function does with its arguments. */
    private interface Body {
        void run(Object[] arguments);
    }

    private final Arena arena = Arena.ofAuto();
    private final Map<String, MemorySegment> functions = new HashMap<>();
    /** Status codes of functions that are to fail, by name. */
    public final Map<String, Integer> codes = new HashMap<>();
    /** What every byte that is copied to the host is. */
    public byte copied;
    /** Names of the functions called, in order. */
    public final List<String> calls = new ArrayList<>();

    public FakeDriver() {
        define("cuInit", arguments -> {}, JAVA_INT);
        define("cuDriverGetVersion", out(13_000), ADDRESS);
        define("cuDeviceGetCount", out(1), ADDRESS);
        define("cuDeviceGet", out(0), ADDRESS, JAVA_INT);
        define("cuDeviceGetName", arguments -> memory(arguments[0], 256).setString(0, "fake"), ADDRESS, JAVA_INT,
                JAVA_INT);
        // compute capability 9.0 is 9 and 0; for the other attributes 9 does as well
        define("cuDeviceGetAttribute", arguments -> memory(arguments[0], 4)
                .set(JAVA_INT, 0, (int) arguments[1] == 76 ? 0 : 9), ADDRESS, JAVA_INT, JAVA_INT);
        define("cuDevicePrimaryCtxRetain", handle(), ADDRESS, JAVA_INT);
        define("cuDevicePrimaryCtxRelease_v2", arguments -> {}, JAVA_INT);
        define("cuCtxSetCurrent", arguments -> {}, ADDRESS);
        define("cuStreamCreateWithPriority", handle(), ADDRESS, JAVA_INT, JAVA_INT);
        define("cuStreamDestroy_v2", arguments -> {}, ADDRESS);
        define("cuStreamQuery", arguments -> {}, ADDRESS);
        define("cuStreamBeginCapture_v2", arguments -> {}, ADDRESS, JAVA_INT);
        define("cuStreamEndCapture", arguments -> memory(arguments[1], 8).set(JAVA_LONG, 0, HANDLE), ADDRESS, ADDRESS);
        define("cuGraphInstantiateWithFlags", handle(), ADDRESS, ADDRESS, JAVA_LONG);
        define("cuGraphDestroy", arguments -> {}, ADDRESS);
        define("cuGraphExecDestroy", arguments -> {}, ADDRESS);
        define("cuEventCreate", handle(), ADDRESS, JAVA_INT);
        define("cuEventRecord", arguments -> {}, ADDRESS, ADDRESS);
        define("cuEventQuery", arguments -> {}, ADDRESS);
        define("cuEventElapsedTime", arguments -> memory(arguments[0], 4).set(JAVA_FLOAT, 0, 1.5f), ADDRESS, ADDRESS,
                ADDRESS);
        define("cuEventDestroy_v2", arguments -> {}, ADDRESS);
        define("cuMemAlloc_v2", handle(), ADDRESS, JAVA_LONG);
        define("cuMemFree_v2", arguments -> {}, JAVA_LONG);
        define("cuMemHostAlloc", arguments -> memory(arguments[0], 8)
                .set(ADDRESS, 0, arena.allocate((long) arguments[1], 64)), ADDRESS, JAVA_LONG, JAVA_INT);
        define("cuMemFreeHost", arguments -> {}, ADDRESS);
        define("cuMemcpyDtoHAsync_v2", arguments -> memory(arguments[0], (long) arguments[2]).fill(copied), ADDRESS,
                JAVA_LONG, JAVA_LONG, ADDRESS);
        define("cuGetErrorName", arguments -> memory(arguments[1], 8)
                .set(ADDRESS, 0, arena.allocateFrom("CUDA_ERROR_FAKE")), JAVA_INT, ADDRESS);
    }

    /** The driver as the code under test sees it. */
    public CudaDriver driver() {
        return new CudaDriver(name -> Optional.ofNullable(functions.get(name)));
    }

    private static Body out(int value) {
        return arguments -> memory(arguments[0], 4).set(JAVA_INT, 0, value);
    }

    private static Body handle() {
        return arguments -> memory(arguments[0], 8).set(JAVA_LONG, 0, HANDLE);
    }

    private static MemorySegment memory(Object address, long bytes) {
        return ((MemorySegment) address).reinterpret(bytes);
    }

    private void define(String name, Body body, MemoryLayout... arguments) {
        FunctionDescriptor descriptor = FunctionDescriptor.of(JAVA_INT, arguments);
        try {
            MethodHandle call = MethodHandles.lookup()
                    .findVirtual(FakeDriver.class, "call",
                            MethodType.methodType(int.class, String.class, Body.class, Object[].class));
            MethodHandle bound = MethodHandles.insertArguments(call, 0, this, name, body)
                    .asCollector(Object[].class, arguments.length)
                    .asType(descriptor.toMethodType());
            functions.put(name, Linker.nativeLinker().upcallStub(bound, descriptor, arena));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private int call(String name, Body body, Object[] arguments) {
        calls.add(name);
        int code = codes.getOrDefault(name, 0);
        if (code == 0) {
            body.run(arguments);
        }
        return code;
    }
}
