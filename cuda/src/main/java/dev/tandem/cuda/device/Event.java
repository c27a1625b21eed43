package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import dev.tandem.cuda.ffi.CudaException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** A point in a stream, with the time at which the stream passed it. */
public final class Event implements AutoCloseable {
    /** {@code CUDA_ERROR_NOT_READY}. */
    static final int NOT_READY = 600;

    private final Device device;
    private final MemorySegment handle;

    Event(Device device, MemorySegment handle) {
        this.device = device;
        this.handle = handle;
    }

    MemorySegment handle() {
        return handle;
    }

    /** Whether the stream has passed it. */
    public boolean reached() {
        int code = device.driver().cuEventQuery.code(handle);
        if (code != 0 && code != NOT_READY) {
            throw new CudaException(
                    "cuEventQuery failed with code " + code
                            + ": a kernel before the event failed; the GPU context cannot be used any more",
                    code);
        }
        return code == 0;
    }

    /** Milliseconds from {@code earlier} to this event; both must be reached. */
    public float millisecondsSince(Event earlier) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment time = arena.allocate(JAVA_FLOAT);
            device.driver().cuEventElapsedTime.call(time, earlier.handle, handle);
            return time.get(JAVA_FLOAT, 0);
        }
    }

    @Override
    public void close() {
        device.driver().cuEventDestroy.call(handle);
    }
}
