package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.ffi.CudaException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.stream.IntStream;

/**
 * A function of a module with its block size. The constructor loads it onto the GPU. The driver would otherwise load it
 * at the first launch, which may wait for running kernels and is impossible while a graph is captured. A kernel that
 * begins with a wait for the kernel before it may be launched while that one still runs (programmatic dependent launch,
 * compute capability 9.0 and later).
 *
 * <p>Owned by: the thread that launches it, one at a time.
 */
public final class Kernel {
    /** {@code CUDA_ERROR_INVALID_VALUE}: {@code cuFuncGetParamInfo} answers with it beyond the last parameter. */
    private static final int INVALID_VALUE = 1;
    /** {@code CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES}. */
    private static final int STATIC_SHARED_SIZE = 1;
    /** {@code CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES}. */
    private static final int DYNAMIC_SHARED_SIZE = 8;
    /** {@code CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}, in percent. */
    private static final int PREFERRED_SHARED = 9;
    /** Leaves the division to the driver, which may keep that of the kernel before. */
    private static final int NO_PREFERENCE = -1;
    /** Shared memory that the GPU itself takes for each thread block. */
    private static final int RESERVED_SHARED = 1 << 10;
    /**
     * Dynamic shared memory that a thread block gets without opting in; lower than the driver's limit, so that static
     * memory fits too.
     */
    private static final int FREE_SHARED = 8 << 10;

    /** {@code CUlaunchConfig}: seven ints, stream at 32, attributes at 40, their number at 48. */
    private static final int CONFIG_BYTES = 56;

    private static final int CONFIG_STREAM = 32;
    private static final int CONFIG_ATTRIBUTES = 40;
    private static final int CONFIG_ATTRIBUTE_COUNT = 48;
    /** {@code CUlaunchAttribute}: id, then the value at 8; 72 bytes. */
    private static final int ATTRIBUTE_BYTES = 72;

    private static final int PROGRAMMATIC_STREAM_SERIALIZATION = 6;

    private final Device device;
    private final String name;
    private final MemorySegment function;
    private final int threads;
    private final int sharedBytes;
    private final boolean waits;
    /** Bytes of the kernel's parameters, in their order. */
    private final int[] parameterBytes;

    private final Arena arena = Arena.ofAuto();
    private final MemorySegment config = arena.allocate(CONFIG_BYTES, 8);
    private final MemorySegment values;
    private final MemorySegment pointers;

    Kernel(Device device, String name, MemorySegment function, int threads, int sharedBytes, boolean waits) {
        this.device = device;
        this.name = name;
        this.function = function;
        this.threads = threads;
        this.sharedBytes = sharedBytes;
        this.waits = waits;
        device.driver().cuFuncLoad.call(function);
        requireShared();
        this.parameterBytes = parameterBytes();
        this.values = arena.allocate(8L * parameterBytes.length, 8);
        this.pointers = arena.allocate(ADDRESS, parameterBytes.length);
        MemorySegment attribute = arena.allocate(ATTRIBUTE_BYTES, 8);
        attribute.set(JAVA_INT, 0, PROGRAMMATIC_STREAM_SERIALIZATION);
        attribute.set(JAVA_INT, 8, 1);
        config.set(JAVA_INT, 8, 1);
        config.set(JAVA_INT, 12, threads);
        config.set(JAVA_INT, 16, 1);
        config.set(JAVA_INT, 20, 1);
        config.set(JAVA_INT, 24, sharedBytes);
        config.set(ADDRESS, CONFIG_ATTRIBUTES, attribute);
        config.set(JAVA_INT, CONFIG_ATTRIBUTE_COUNT, waits ? 1 : 0);
        for (int i = 0; i < parameterBytes.length; i++) {
            pointers.setAtIndex(ADDRESS, i, values.asSlice(8L * i, 8));
        }
        if (sharedBytes > FREE_SHARED) {
            device.driver().cuFuncSetAttribute.call(function, DYNAMIC_SHARED_SIZE, sharedBytes);
        }
    }

    /**
     * Says how a multiprocessor divides its memory while the kernel runs.
     *
     * @param large whether all that the kernel's thread blocks do not need becomes L1 cache, though the kernel then
     *     waits until the one before has left the multiprocessor; false leaves that to the driver
     */
    public void preferL1Cache(boolean large) {
        int needed = residentBlocks() * (staticShared() + sharedBytes + RESERVED_SHARED);
        int all = device.sharedMemoryPerBlock() + RESERVED_SHARED;
        int percent = Math.min(100, (100 * needed + all - 1) / all);
        device.driver().cuFuncSetAttribute.call(function, PREFERRED_SHARED, large ? percent : NO_PREFERENCE);
    }

    private int staticShared() {
        try (Arena confined = Arena.ofConfined()) {
            MemorySegment size = confined.allocate(JAVA_INT);
            device.driver().cuFuncGetAttribute.call(size, STATIC_SHARED_SIZE, function);
            return size.get(JAVA_INT, 0);
        }
    }

    private void requireShared() {
        int fixed = staticShared();
        if (fixed + sharedBytes > device.sharedMemoryPerBlock()) {
            throw new CudaException("kernel " + name + " needs " + fixed + " bytes of static and " + sharedBytes
                    + " of dynamic shared memory per block; " + device.name() + " has "
                    + device.sharedMemoryPerBlock()
                    + ". Run on the CPU with --device cpu");
        }
    }

    private int[] parameterBytes() {
        try (Arena confined = Arena.ofConfined()) {
            MemorySegment offset = confined.allocate(JAVA_LONG);
            MemorySegment size = confined.allocate(JAVA_LONG);
            IntStream.Builder bytes = IntStream.builder();
            for (int i = 0; ; i++) {
                int code = device.driver().cuFuncGetParamInfo.code(function, (long) i, offset, size);
                if (code == INVALID_VALUE) {
                    return bytes.build().toArray();
                }
                if (code != 0) {
                    throw new CudaException(
                            "cuFuncGetParamInfo of parameter " + i + " of kernel " + name + " failed (" + code + ")",
                            code);
                }
                bytes.add((int) size.get(JAVA_LONG, 0));
            }
        }
    }

    /** Thread blocks that a multiprocessor holds at a time. */
    public int residentBlocks() {
        try (Arena confined = Arena.ofConfined()) {
            MemorySegment count = confined.allocate(JAVA_INT);
            device.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor.call(count, function, threads, (long)
                    sharedBytes);
            return count.get(JAVA_INT, 0);
        }
    }

    /**
     * Enqueues a grid of thread blocks.
     *
     * @param arguments Integer, Long (addresses too), Float or {@link TensorMap}, as the kernel declares them
     * @throws CudaException when number or size of the arguments differs from the kernel's parameters
     */
    public void launch(Stream stream, int gridX, int gridY, Object... arguments) {
        if (arguments.length != parameterBytes.length) {
            throw new CudaException("kernel " + name + " has " + parameterBytes.length
                    + " parameters; the launch passes " + arguments.length + " arguments");
        }
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case Integer value -> {
                    require(i, Integer.BYTES);
                    values.set(JAVA_INT, 8L * i, value);
                }
                case Long value -> {
                    require(i, Long.BYTES);
                    values.set(JAVA_LONG, 8L * i, value);
                }
                case Float value -> {
                    require(i, Float.BYTES);
                    values.set(JAVA_FLOAT, 8L * i, value);
                }
                case TensorMap map -> {
                    require(i, TensorMap.BYTES);
                    pointers.setAtIndex(ADDRESS, i, map.memory());
                }
                default ->
                    throw new IllegalArgumentException(name + ": argument " + i + " is a " + arguments[i].getClass());
            }
        }
        try {
            if (waits) {
                config.set(JAVA_INT, 0, gridX);
                config.set(JAVA_INT, 4, gridY);
                config.set(ADDRESS, CONFIG_STREAM, stream.handle());
                device.driver().cuLaunchKernelEx.call(config, function, pointers, MemorySegment.NULL);
            } else {
                device.driver()
                        .cuLaunchKernel
                        .call(
                                function,
                                gridX,
                                gridY,
                                1,
                                threads,
                                1,
                                1,
                                sharedBytes,
                                stream.handle(),
                                pointers,
                                MemorySegment.NULL);
            }
        } catch (CudaException e) {
            throw new CudaException("kernel " + name + ", grid " + gridX + " x " + gridY + ": " + e.getMessage(), e);
        }
    }

    private void require(int argument, int bytes) {
        if (parameterBytes[argument] != bytes) {
            throw new CudaException("kernel " + name + ": parameter " + argument + " has " + parameterBytes[argument]
                    + " bytes; the launch passes an argument of " + bytes);
        }
    }
}
