package dev.tandem.cuda.device;

import dev.tandem.cpu.topology.NativeMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;
import java.util.stream.LongStream;

/** Pinned host memory, at the same address for CPU and GPU. Closed once, by its owner. */
public final class PinnedBuffer implements AutoCloseable {
    private static final long PAGE = 4096;
    /** Bytes that a thread touches at a time. */
    private static final long PIECE = 64L << 20;
    /** {@code CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP}. */
    private static final int FOR_EVERY_CONTEXT = 3;

    private final Device device;
    private final MemorySegment memory;
    private final String label;
    /** Owns registered memory; empty for memory that the driver allocated. */
    private final Optional<Arena> arena;

    PinnedBuffer(Device device, MemorySegment memory, String label) {
        this(device, memory, label, Optional.empty());
    }

    private PinnedBuffer(Device device, MemorySegment memory, String label, Optional<Arena> arena) {
        this.device = device;
        this.memory = memory;
        this.label = label;
        this.arena = arena;
    }

    /** Allocates huge pages, first touched by all cores, so that they are spread over all NUMA nodes. */
    @SuppressWarnings("MustBeClosedChecker") // the buffer owns the arena and closes it
    static PinnedBuffer huge(Device device, long bytes, String label) {
        Arena arena = Arena.ofShared();
        try {
            MemorySegment memory = NativeMemory.allocateHuge(bytes, label, arena);
            LongStream.range(0, (bytes + PIECE - 1) / PIECE).parallel().forEach(piece -> {
                for (long at = piece * PIECE; at < Math.min(bytes, (piece + 1) * PIECE); at += PAGE) {
                    memory.set(ValueLayout.JAVA_BYTE, at, (byte) 0);
                }
            });
            int code = device.driver().cuMemHostRegister.code(memory, bytes, FOR_EVERY_CONTEXT);
            if (code != 0) {
                throw Device.noPinnedMemory(bytes, label, code);
            }
            return new PinnedBuffer(device, memory, label, Optional.of(arena));
        } catch (RuntimeException | Error e) {
            arena.close();
            throw e;
        }
    }

    public MemorySegment memory() {
        return memory;
    }

    public long address() {
        return memory.address();
    }

    @Override
    public void close() {
        if (arena.isPresent()) {
            device.driver().cuMemHostUnregister.call(memory);
            arena.get().close();
        } else {
            device.driver().cuMemFreeHost.call(memory);
        }
        device.closed(label);
    }
}
