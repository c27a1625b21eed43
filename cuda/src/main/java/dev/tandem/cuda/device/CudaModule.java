package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Loaded machine code. Its kernels must not be launched after it is closed. */
public final class CudaModule implements AutoCloseable {
    private final Device device;
    private final MemorySegment handle;
    private final String label;

    CudaModule(Device device, MemorySegment handle, String label) {
        this.device = device;
        this.handle = handle;
        this.label = label;
    }

    /**
     * A kernel of this module.
     *
     * @param threads per block
     * @param sharedBytes dynamic shared memory per block
     */
    public Kernel kernel(String name, int threads, int sharedBytes) {
        return kernel(name, threads, sharedBytes, false);
    }

    /** A kernel that begins with a wait for the kernel before it (programmatic dependent launch). */
    public Kernel waitingKernel(String name, int threads, int sharedBytes) {
        return kernel(name, threads, sharedBytes, device.capability() >= 90);
    }

    private Kernel kernel(String name, int threads, int sharedBytes, boolean waits) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment function = arena.allocate(ADDRESS);
            device.driver().cuModuleGetFunction.call(function, handle, arena.allocateFrom(name));
            return new Kernel(device, name, function.get(ADDRESS, 0), threads, sharedBytes, waits);
        }
    }

    @Override
    public void close() {
        device.driver().cuModuleUnload.call(handle);
        device.closed(label);
    }
}
