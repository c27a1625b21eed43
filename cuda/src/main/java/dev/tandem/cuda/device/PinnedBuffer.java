package dev.tandem.cuda.device;

import java.lang.foreign.MemorySegment;

/** Host memory that stays where it is, at the same address for CPU and GPU. Closed once, by its owner. */
public final class PinnedBuffer implements AutoCloseable {
    private final Device device;
    private final MemorySegment memory;
    private final String label;

    PinnedBuffer(Device device, MemorySegment memory, String label) {
        this.device = device;
        this.memory = memory;
        this.label = label;
    }

    public MemorySegment memory() {
        return memory;
    }

    public long address() {
        return memory.address();
    }

    @Override
    public void close() {
        device.driver().cuMemFreeHost.call(memory);
        device.closed(label);
    }
}
