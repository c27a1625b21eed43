package dev.tandem.cuda.device;

import java.lang.foreign.MemorySegment;

/** A CUDA graph: captured work that is launched as a whole. */
public final class Graph implements AutoCloseable {
    private final Device device;
    private final MemorySegment handle;

    Graph(Device device, MemorySegment handle) {
        this.device = device;
        this.handle = handle;
    }

    MemorySegment handle() {
        return handle;
    }

    @Override
    public void close() {
        device.driver().cuGraphExecDestroy.call(handle);
    }
}
