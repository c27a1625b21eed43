package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;

import dev.tandem.cuda.CudaException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** A queue of work; nothing waits but {@link #synchronise}. Owned by: the thread that enqueues. */
public final class Stream implements AutoCloseable {
    /** {@code CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}. */
    private static final int THREAD_LOCAL = 1;

    private final Device device;
    private final MemorySegment handle;
    private final String label;

    Stream(Device device, MemorySegment handle, String label) {
        this.device = device;
        this.handle = handle;
        this.label = label;
    }

    /** For libraries that enqueue themselves. */
    public MemorySegment handle() {
        return handle;
    }

    /** Copies from pinned memory. */
    public void upload(DeviceBuffer to, long offset, MemorySegment from, long bytes) {
        device.driver().cuMemcpyHtoDAsync.call(to.address() + offset, from, bytes, handle);
    }

    /** Copies to pinned memory. */
    public void download(MemorySegment to, DeviceBuffer from, long offset, long bytes) {
        device.driver().cuMemcpyDtoHAsync.call(to, from.address() + offset, bytes, handle);
    }

    /** Fills with a 32-bit value. */
    public void fill(DeviceBuffer buffer, int value) {
        device.driver().cuMemsetD32Async.call(buffer.address(), value, buffer.bytes() / 4, handle);
    }

    /** Blocks until everything enqueued has run. */
    public void synchronise() {
        int code = device.driver().cuStreamSynchronize.code(handle);
        if (code != 0) {
            throw failed("cuStreamSynchronize", code);
        }
    }

    private CudaException failed(String function, int code) {
        return new CudaException(
                function + " on stream '" + label + "' failed with code " + code
                        + ": a kernel before it failed; the GPU context cannot be used any more", code);
    }

    public void record(Event event) {
        device.driver().cuEventRecord.call(event.handle(), handle);
    }

    /** What is enqueued here from now on runs after the event's last record, in whichever stream. */
    public void waitFor(Event event) {
        device.driver().cuStreamWaitEvent.call(handle, event.handle(), 0);
    }

    /** What {@code work} enqueues here becomes a graph instead of running. */
    public Graph capture(Runnable work) {
        try (Arena arena = Arena.ofConfined()) {
            device.driver().cuStreamBeginCapture.call(handle, THREAD_LOCAL);
            MemorySegment graph = arena.allocate(ADDRESS);
            try {
                work.run();
            } catch (RuntimeException e) {
                device.driver().cuStreamEndCapture.code(handle, graph);
                throw e;
            }
            device.driver().cuStreamEndCapture.call(handle, graph);
            MemorySegment executable = arena.allocate(ADDRESS);
            MemorySegment captured = graph.get(ADDRESS, 0);
            try {
                device.driver().cuGraphInstantiateWithFlags.call(executable, captured, 0L);
            } finally {
                device.driver().cuGraphDestroy.call(captured);
            }
            return new Graph(device, executable.get(ADDRESS, 0));
        }
    }

    public void launch(Graph graph) {
        device.driver().cuGraphLaunch.call(graph.handle(), handle);
    }

    @Override
    public void close() {
        device.driver().cuStreamDestroy.call(handle);
        device.closed(label);
    }
}
