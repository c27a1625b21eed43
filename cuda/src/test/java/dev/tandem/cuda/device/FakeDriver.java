package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
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
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A libcuda of one GPU, written in Java: each public method whose name begins with {@code cu} is a function of it. Functions that it lacks are
 * missing, as from an old driver. It remembers which kernels were loaded and launched.
 *
 * <p>Owned by: the test's thread.
 */
public final class FakeDriver {
    /** The handle of GPU 0: another number, so that one is not taken for the other. */
    public static final int HANDLE = 7;
    private static final int OK = 0;
    private static final int INVALID_VALUE = 1;
    private static final int INVALID_DEVICE = 101;
    private static final int NOT_FOUND = 500;
    private static final int STATIC_SHARED_SIZE = 1;

    /** What a kernel declares. */
    public record Function(int staticShared, int... parameterBytes) {}

    public int version = 13_000;
    public String name = "Fake GPU";
    /** {@code CUdevice_attribute}: multiprocessors, clock, bus width, capability 9.0, and the shared memory that a block may ask for. */
    public final Map<Integer, Integer> attributes = new HashMap<>(Map.of(16, 132, 36, 2_619_000, 37, 6144, 75, 9, 76, 0, 97, 227 << 10));
    public final Map<String, Function> functions = new HashMap<>();
    /** Names of kernels, behind "load " or "launch ". */
    public final List<String> log = new ArrayList<>();
    private final List<String> names = new ArrayList<>();
    private final Arena arena = Arena.ofAuto();

    /** The functions of this library as the driver's bindings. */
    public CudaDriver driver() {
        return new CudaDriver(symbol -> Arrays.stream(FakeDriver.class.getDeclaredMethods())
                .filter(method -> method.getName().equals(symbol.replaceFirst("_v2$", "")))
                .findFirst()
                .map(this::stub));
    }

    private MemorySegment stub(Method method) {
        try {
            MethodHandle handle = MethodHandles.lookup().unreflect(method).bindTo(this);
            MemoryLayout[] arguments = Arrays.stream(method.getParameterTypes()).map(FakeDriver::layout).toArray(MemoryLayout[]::new);
            return Linker.nativeLinker().upcallStub(handle, FunctionDescriptor.of(JAVA_INT, arguments), arena);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static MemoryLayout layout(Class<?> type) {
        return type == int.class ? JAVA_INT : type == long.class ? JAVA_LONG : ADDRESS;
    }

    private static MemorySegment out(MemorySegment pointer) {
        return pointer.reinterpret(Long.BYTES);
    }

    private Optional<String> function(MemorySegment handle) {
        long index = handle.address() - 1;
        return index >= 0 && index < names.size() ? Optional.of(names.get((int) index)) : Optional.empty();
    }

    public int cuGetErrorName(int code, MemorySegment name) {
        name.reinterpret(Long.BYTES).set(ADDRESS, 0, arena.allocateFrom("CUDA_ERROR_" + code));
        return OK;
    }

    public int cuInit(int flags) {
        return flags == 0 ? OK : INVALID_VALUE;
    }

    public int cuDriverGetVersion(MemorySegment answer) {
        out(answer).set(JAVA_INT, 0, version);
        return OK;
    }

    public int cuDeviceGetCount(MemorySegment answer) {
        out(answer).set(JAVA_INT, 0, 1);
        return OK;
    }

    public int cuDeviceGet(MemorySegment answer, int number) {
        out(answer).set(JAVA_INT, 0, HANDLE);
        return number == 0 ? OK : INVALID_DEVICE;
    }

    public int cuDeviceGetName(MemorySegment answer, int length, int device) {
        answer.reinterpret(length).setString(0, name);
        return device == HANDLE ? OK : INVALID_DEVICE;
    }

    public int cuDeviceGetAttribute(MemorySegment answer, int attribute, int device) {
        out(answer).set(JAVA_INT, 0, attributes.getOrDefault(attribute, 0));
        return device == HANDLE ? OK : INVALID_DEVICE;
    }

    public int cuDevicePrimaryCtxRetain(MemorySegment answer, int device) {
        out(answer).set(JAVA_LONG, 0, 1);
        return device == HANDLE ? OK : INVALID_DEVICE;
    }

    public int cuDevicePrimaryCtxRelease(int device) {
        return device == HANDLE ? OK : INVALID_DEVICE;
    }

    public int cuCtxSetCurrent(MemorySegment context) {
        return context.address() == 1 ? OK : INVALID_VALUE;
    }

    public int cuStreamCreateWithPriority(MemorySegment answer, int flags, int priority) {
        out(answer).set(JAVA_LONG, 0, 1);
        return OK;
    }

    public int cuStreamDestroy(MemorySegment stream) {
        return OK;
    }

    public int cuModuleLoadData(MemorySegment answer, MemorySegment image) {
        out(answer).set(JAVA_LONG, 0, 1);
        return OK;
    }

    public int cuModuleUnload(MemorySegment module) {
        return OK;
    }

    public int cuModuleGetFunction(MemorySegment answer, MemorySegment module, MemorySegment name) {
        String wanted = name.reinterpret(256).getString(0);
        if (!functions.containsKey(wanted)) {
            return NOT_FOUND;
        }
        names.add(wanted);
        out(answer).set(JAVA_LONG, 0, names.size());
        return OK;
    }

    public int cuFuncLoad(MemorySegment handle) {
        function(handle).ifPresent(kernel -> log.add("load " + kernel));
        return function(handle).isPresent() ? OK : INVALID_VALUE;
    }

    public int cuFuncGetParamInfo(MemorySegment handle, long index, MemorySegment offset, MemorySegment size) {
        int[] bytes = functions.get(function(handle).orElseThrow()).parameterBytes();
        if (index >= bytes.length) {
            return INVALID_VALUE;
        }
        out(size).set(JAVA_LONG, 0, bytes[(int) index]);
        return OK;
    }

    public int cuFuncGetAttribute(MemorySegment answer, int attribute, MemorySegment handle) {
        out(answer).set(JAVA_INT, 0, functions.get(function(handle).orElseThrow()).staticShared());
        return attribute == STATIC_SHARED_SIZE ? OK : INVALID_VALUE;
    }

    public int cuFuncSetAttribute(MemorySegment handle, int attribute, int value) {
        return OK;
    }

    public int cuLaunchKernel(
            MemorySegment handle, int gridX, int gridY, int gridZ, int blockX, int blockY, int blockZ, int sharedBytes, MemorySegment stream,
            MemorySegment arguments, MemorySegment extra) {
        function(handle).ifPresent(kernel -> log.add("launch " + kernel));
        return OK;
    }
}
