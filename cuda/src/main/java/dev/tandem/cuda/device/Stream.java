package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.ffi.CudaException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * A queue of GPU work. Only {@link #synchronise} and {@link #runsOut} wait.
 *
 * <p>Owned by: the thread that enqueues.
 */
public final class Stream implements AutoCloseable {
    /** {@code CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}. */
    private static final int THREAD_LOCAL = 1;
    /**
     * {@code CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY}: a graph's kernels have the priorities of the streams in
     * which they were captured.
     */
    private static final long NODE_PRIORITIES = 8;
    /**
     * Max time of a wait. It is much longer than the longest work between two waits, which is a profile's repetitions
     * of a long prompt on a small GPU.
     */
    private static final long LIMIT_NANOS = 120_000_000_000L;

    /** Byte offsets of the fields of {@code CUDA_MEMCPY2D} that are not 0, and values of {@code CUmemorytype}. */
    static final class Copy2d {
        static final int HOST = 1;
        static final int DEVICE = 2;
        static final int SOURCE_TYPE = 16;
        static final int SOURCE_HOST = 24;
        static final int SOURCE_PITCH = 48;
        static final int TARGET_TYPE = 72;
        static final int TARGET_DEVICE = 88;
        static final int TARGET_PITCH = 104;
        static final int ROW_BYTES = 112;
        static final int ROWS = 120;
        static final int BYTES = 128;

        private Copy2d() {}
    }

    private final Device device;
    private final MemorySegment handle;
    private final String label;

    Stream(Device device, MemorySegment handle, String label) {
        this.device = device;
        this.handle = handle;
        this.label = label;
    }

    /** {@code CUstream}, for libraries that enqueue work. */
    public MemorySegment handle() {
        return handle;
    }

    /** Copies from pinned memory. */
    public void upload(DeviceBuffer to, long offset, MemorySegment from, long bytes) {
        device.driver().cuMemcpyHtoDAsync.call(to.address() + offset, from, bytes, handle);
    }

    /**
     * Copies rows from pinned memory in one call. They lie {@code pitch} bytes apart on both sides.
     *
     * @param bytes of each row
     */
    public void uploadRows(DeviceBuffer to, long offset, MemorySegment from, long pitch, long bytes, int rows) {
        if (rows == 1) {
            upload(to, offset, from, bytes);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocate(Copy2d.BYTES, Long.BYTES);
            copy.set(JAVA_INT, Copy2d.SOURCE_TYPE, Copy2d.HOST);
            copy.set(ADDRESS, Copy2d.SOURCE_HOST, from);
            copy.set(JAVA_LONG, Copy2d.SOURCE_PITCH, pitch);
            copy.set(JAVA_INT, Copy2d.TARGET_TYPE, Copy2d.DEVICE);
            copy.set(JAVA_LONG, Copy2d.TARGET_DEVICE, to.address() + offset);
            copy.set(JAVA_LONG, Copy2d.TARGET_PITCH, pitch);
            copy.set(JAVA_LONG, Copy2d.ROW_BYTES, bytes);
            copy.set(JAVA_LONG, Copy2d.ROWS, rows);
            device.driver().cuMemcpy2DAsync.call(copy, handle);
        }
    }

    /** Copies to pinned memory. */
    public void download(MemorySegment to, DeviceBuffer from, long offset, long bytes) {
        device.driver().cuMemcpyDtoHAsync.call(to, from.address() + offset, bytes, handle);
    }

    /** Fills with a 32-bit value. */
    public void fill(DeviceBuffer buffer, int value) {
        fill(buffer, 0, buffer.bytes(), value);
    }

    /** Fills a range with a 32-bit value; {@code offset} and {@code bytes} are multiples of 4. */
    public void fill(DeviceBuffer buffer, long offset, long bytes, int value) {
        device.driver().cuMemsetD32Async.call(buffer.address() + offset, value, bytes / 4, handle);
    }

    /**
     * Blocks until everything enqueued has run.
     *
     * @throws CudaException when it has not run within {@link #LIMIT_NANOS}, or a kernel failed
     */
    public void synchronise() {
        if (!runsOut(LIMIT_NANOS)) {
            throw new CudaException("the GPU did not finish the work of stream '" + label + "' within "
                    + LIMIT_NANOS / 1_000_000_000
                    + " s: it hangs. Look for Xid lines in the kernel log (dmesg), then restart the process");
        }
    }

    /**
     * Waits for everything enqueued to run.
     *
     * @return false when that takes longer than {@code limitNanos}
     * @throws CudaException when a kernel failed
     */
    public boolean runsOut(long limitNanos) {
        return device.waits().until(this::isIdle, limitNanos, () -> {});
    }

    private boolean isIdle() {
        int code = device.driver().cuStreamQuery.code(handle);
        if (code != 0 && code != Event.NOT_READY) {
            throw new CudaException(
                    "cuStreamQuery of stream '" + label + "' failed with code " + code
                            + ": a kernel before it failed; the GPU context cannot be used any more",
                    code);
        }
        return code == 0;
    }

    /** Records an event at the stream's current end. */
    public void record(Event event) {
        device.driver().cuEventRecord.call(event.handle(), handle);
    }

    /** Makes later work of this stream wait for the event's last record, in any stream. */
    public void waitFor(Event event) {
        device.driver().cuStreamWaitEvent.call(handle, event.handle(), 0);
    }

    /**
     * Captures what {@code work} enqueues here as a graph, instead of running it. When something is thrown, the capture
     * is ended and its graph destroyed.
     *
     * @throws CudaException when the driver cannot make a graph, for lack of memory for example
     */
    public Graph capture(Runnable work) {
        try (Arena arena = Arena.ofConfined()) {
            device.driver().cuStreamBeginCapture.call(handle, THREAD_LOCAL);
            MemorySegment graph = arena.allocate(ADDRESS);
            try {
                work.run();
            } catch (RuntimeException | Error e) {
                abandon(graph);
                throw e;
            }
            try {
                device.driver().cuStreamEndCapture.call(handle, graph);
                MemorySegment executable = arena.allocate(ADDRESS);
                device.driver().cuGraphInstantiateWithFlags.call(executable, graph.get(ADDRESS, 0), NODE_PRIORITIES);
                return new Graph(device, executable.get(ADDRESS, 0));
            } finally {
                destroy(graph);
            }
        }
    }

    /** Ends a failed capture; the driver may report it as invalid, which is ignored. */
    private void abandon(MemorySegment graph) {
        device.driver().cuStreamEndCapture.code(handle, graph);
        destroy(graph);
    }

    private void destroy(MemorySegment graph) {
        MemorySegment captured = graph.get(ADDRESS, 0);
        if (captured.address() != 0) {
            device.driver().cuGraphDestroy.call(captured);
        }
    }

    /** Enqueues a graph. */
    public void launch(Graph graph) {
        device.driver().cuGraphLaunch.call(graph.handle(), handle);
    }

    @Override
    public void close() {
        device.driver().cuStreamDestroy.call(handle);
        device.closed(label);
    }
}
