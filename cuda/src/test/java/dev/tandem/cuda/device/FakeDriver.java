package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.device.Stream.Copy2d;
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

/** A CUDA driver without a GPU: it returns the codes and values that a test sets, and records its calls. */
public final class FakeDriver {
    private static final int HANDLE = 4096;
    /** The handle of GPU 0. It is not 0, so that a test finds code that confuses number and handle. */
    private static final int DEVICE = 7;

    private static final int INVALID_VALUE = 1;
    private static final int INVALID_DEVICE = 101;

    /** A kernel's declaration: static shared memory and parameter sizes, in bytes. */
    public record Declared(int staticShared, int... parameterBytes) {}

    /** A copy of rows to the GPU: addresses of the first, and bytes. */
    public record Rows(long from, long to, long pitch, long bytes, long count) {}

    /** The body of one driver function; returns its status code. */
    private interface Answer {
        int to(Object[] arguments);
    }

    /** The body of a function that always succeeds. */
    private interface Body {
        void run(Object[] arguments);
    }

    private final Arena arena = Arena.ofAuto();
    private final Map<String, MemorySegment> functions = new HashMap<>();
    /** Status codes of functions that fail, by name. */
    public final Map<String, Integer> codes = new HashMap<>();
    /** How many calls succeed before a function fails, by name; 0 if absent. */
    public final Map<String, Integer> successes = new HashMap<>();
    /** The value of every byte that is copied to the host. */
    public byte copied;
    /** Addresses of the host memory that is copied to the GPU, in order; those of all rows of a copy. */
    public final List<Long> uploads = new ArrayList<>();
    /** Copies of several rows at once. */
    public final List<Rows> uploadedRows = new ArrayList<>();
    /** Names of the functions called, in order. */
    public final List<String> calls = new ArrayList<>();
    /** CUDA version of the driver. */
    public int version = 13_000;

    public String name = "fake";
    /**
     * {@code CUdevice_attribute}: multiprocessors, memory clock and bus width, compute capability 9.0, and the shared
     * memory that a block may ask for.
     */
    public final Map<Integer, Integer> attributes =
            new HashMap<>(Map.of(16, 132, 36, 2_619_000, 37, 6144, 75, 9, 76, 0, 97, 227 << 10));
    /** The kernels of all modules, by name. */
    public final Map<String, Declared> kernels = new HashMap<>();
    /** Loads and launches in order, as "load NAME" and "launch NAME". */
    public final List<String> log = new ArrayList<>();

    private final List<String> handles = new ArrayList<>();

    public FakeDriver() {
        define("cuInit", arguments -> {}, JAVA_INT);
        define("cuDriverGetVersion", arguments -> memory(arguments[0], 4).set(JAVA_INT, 0, version), ADDRESS);
        define("cuDeviceGetCount", out(1), ADDRESS);
        define("cuDeviceGet", out(DEVICE), ADDRESS, JAVA_INT);
        ofDevice(
                "cuDeviceGetName",
                2,
                arguments -> memory(arguments[0], 256).setString(0, name),
                ADDRESS,
                JAVA_INT,
                JAVA_INT);
        ofDevice(
                "cuDeviceGetAttribute",
                2,
                arguments -> memory(arguments[0], 4).set(JAVA_INT, 0, attributes.getOrDefault((int) arguments[1], 9)),
                ADDRESS,
                JAVA_INT,
                JAVA_INT);
        ofDevice("cuDevicePrimaryCtxRetain", 1, handle(), ADDRESS, JAVA_INT);
        ofDevice("cuDevicePrimaryCtxRelease_v2", 0, arguments -> {}, JAVA_INT);
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
        define(
                "cuEventElapsedTime",
                arguments -> memory(arguments[0], 4).set(JAVA_FLOAT, 0, 1.5f),
                ADDRESS,
                ADDRESS,
                ADDRESS);
        define("cuEventDestroy_v2", arguments -> {}, ADDRESS);
        define("cuMemAlloc_v2", handle(), ADDRESS, JAVA_LONG);
        define("cuMemFree_v2", arguments -> {}, JAVA_LONG);
        define(
                "cuMemHostAlloc",
                arguments -> memory(arguments[0], 8).set(ADDRESS, 0, arena.allocate((long) arguments[1], 64)),
                ADDRESS,
                JAVA_LONG,
                JAVA_INT);
        define("cuMemFreeHost", arguments -> {}, ADDRESS);
        define(
                "cuMemcpyHtoDAsync_v2",
                arguments -> uploads.add(((MemorySegment) arguments[1]).address()),
                JAVA_LONG,
                ADDRESS,
                JAVA_LONG,
                ADDRESS);
        define("cuMemcpy2DAsync_v2", arguments -> copyRows(memory(arguments[0], Copy2d.BYTES)), ADDRESS, ADDRESS);
        define(
                "cuMemcpyDtoHAsync_v2",
                arguments -> memory(arguments[0], (long) arguments[2]).fill(copied),
                ADDRESS,
                JAVA_LONG,
                JAVA_LONG,
                ADDRESS);
        define("cuModuleLoadData", handle(), ADDRESS, ADDRESS);
        define("cuModuleUnload", arguments -> {}, ADDRESS);
        define(
                "cuModuleGetFunction",
                arguments -> {
                    handles.add(memory(arguments[2], 256).getString(0));
                    memory(arguments[0], 8).set(JAVA_LONG, 0, handles.size());
                },
                ADDRESS,
                ADDRESS,
                ADDRESS);
        define("cuFuncLoad", arguments -> log.add("load " + kernel(arguments[0])), ADDRESS);
        answer("cuFuncGetParamInfo", this::parameter, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
        define(
                "cuFuncGetAttribute",
                arguments -> memory(arguments[0], 4)
                        .set(JAVA_INT, 0, kernels.get(kernel(arguments[2])).staticShared()),
                ADDRESS,
                JAVA_INT,
                ADDRESS);
        define("cuFuncSetAttribute", arguments -> {}, ADDRESS, JAVA_INT, JAVA_INT);
        define(
                "cuLaunchKernel",
                arguments -> log.add("launch " + kernel(arguments[0])),
                ADDRESS,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                ADDRESS,
                ADDRESS,
                ADDRESS);
        define(
                "cuGetErrorName",
                arguments -> memory(arguments[1], 8).set(ADDRESS, 0, arena.allocateFrom("CUDA_ERROR_FAKE")),
                JAVA_INT,
                ADDRESS);
    }

    /** The driver as the code under test sees it. */
    public CudaDriver driver() {
        return new CudaDriver(name -> Optional.ofNullable(functions.get(name)));
    }

    private void copyRows(MemorySegment copy) {
        Rows rows = new Rows(
                copy.get(JAVA_LONG, Copy2d.SOURCE_HOST),
                copy.get(JAVA_LONG, Copy2d.TARGET_DEVICE),
                copy.get(JAVA_LONG, Copy2d.SOURCE_PITCH),
                copy.get(JAVA_LONG, Copy2d.ROW_BYTES),
                copy.get(JAVA_LONG, Copy2d.ROWS));
        uploadedRows.add(rows);
        for (int row = 0; row < rows.count(); row++) {
            uploads.add(rows.from() + row * rows.pitch());
        }
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

    private String kernel(Object handle) {
        return handles.get((int) ((MemorySegment) handle).address() - 1);
    }

    private int parameter(Object[] arguments) {
        int[] bytes = kernels.get(kernel(arguments[0])).parameterBytes();
        long index = (long) arguments[1];
        if (index >= bytes.length) {
            return INVALID_VALUE;
        }
        memory(arguments[3], 8).set(JAVA_LONG, 0, bytes[(int) index]);
        return 0;
    }

    /** @param device index of the argument that must be the GPU's handle */
    private void ofDevice(String name, int device, Body body, MemoryLayout... arguments) {
        answer(
                name,
                values -> {
                    if ((int) values[device] != DEVICE) {
                        return INVALID_DEVICE;
                    }
                    body.run(values);
                    return 0;
                },
                arguments);
    }

    private void define(String name, Body body, MemoryLayout... arguments) {
        answer(
                name,
                values -> {
                    body.run(values);
                    return 0;
                },
                arguments);
    }

    private void answer(String name, Answer body, MemoryLayout... arguments) {
        FunctionDescriptor descriptor = FunctionDescriptor.of(JAVA_INT, arguments);
        try {
            MethodHandle call = MethodHandles.lookup()
                    .findVirtual(
                            FakeDriver.class,
                            "call",
                            MethodType.methodType(int.class, String.class, Answer.class, Object[].class));
            MethodHandle bound = MethodHandles.insertArguments(call, 0, this, name, body)
                    .asCollector(Object[].class, arguments.length)
                    .asType(descriptor.toMethodType());
            functions.put(name, Linker.nativeLinker().upcallStub(bound, descriptor, arena));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private int call(String name, Answer body, Object[] arguments) {
        calls.add(name);
        boolean succeeds = successes.merge(name, -1, Integer::sum) >= 0;
        int code = succeeds ? 0 : codes.getOrDefault(name, 0);
        return code == 0 ? body.to(arguments) : code;
    }
}
