package dev.tandem.cpu.topology;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * Large zeroed allocations. The operating system provides their pages when they are first touched, whereas
 * {@link Arena#allocate} writes all of them. Large allocations are interleaved over the NUMA nodes
 * ({@link NumaInterleaving}).
 */
public final class NativeMemory {
    private static final MethodHandle CALLOC = Linker.nativeLinker()
            .downcallHandle(
                    Linker.nativeLinker().defaultLookup().findOrThrow("calloc"),
                    FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
    private static final MethodHandle FREE = Linker.nativeLinker()
            .downcallHandle(
                    Linker.nativeLinker().defaultLookup().findOrThrow("free"),
                    FunctionDescriptor.ofVoid(ValueLayout.ADDRESS));
    /** Used on Linux only: the number of the advice has another meaning on other systems. */
    private static final Optional<MethodHandle> MADVISE = Optional.of(
                    Linker.nativeLinker().defaultLookup())
            .filter(lookup -> hasHugePageAdvice(System.getProperty("os.name")))
            .flatMap(lookup -> lookup.find("madvise"))
            .map(symbol -> Linker.nativeLinker()
                    .downcallHandle(
                            symbol,
                            FunctionDescriptor.of(
                                    ValueLayout.JAVA_INT,
                                    ValueLayout.ADDRESS,
                                    ValueLayout.JAVA_LONG,
                                    ValueLayout.JAVA_INT)));

    private static final int MADV_HUGEPAGE = 14;
    private static final long HUGE_PAGE = 2L << 20;
    private static final int ALIGNMENT = 64;

    private NativeMemory() {}

    static boolean hasHugePageAdvice(String system) {
        return system.equals("Linux");
    }

    /**
     * Allocates zeroed memory, aligned to 64 bytes.
     *
     * @param what names the allocation in an error message
     * @param arena frees the memory when it closes
     * @throws OutOfMemoryError if the system does not grant the memory
     */
    public static MemorySegment allocate(long bytes, String what, Arena arena) {
        try {
            MemorySegment raw = (MemorySegment) CALLOC.invokeExact(bytes + ALIGNMENT, 1L);
            if (raw.address() == 0) {
                throw new OutOfMemoryError(
                        what + " needs " + (bytes >> 20) + " MiB of memory, which the system refused");
            }
            NumaInterleaving.system().apply(raw.address(), bytes + ALIGNMENT);
            MemorySegment owned = raw.reinterpret(bytes + ALIGNMENT, arena, NativeMemory::free);
            return owned.asSlice(-raw.address() & ALIGNMENT - 1, bytes);
        } catch (Throwable e) {
            throw ForeignCall.failed("calloc", e);
        }
    }

    /** As {@link #allocate}, in huge pages if the system has any: for memory that is read block by block. */
    public static MemorySegment allocateHuge(long bytes, String what, Arena arena) {
        MemorySegment memory = allocate(bytes + HUGE_PAGE, what, arena);
        long aligned = (memory.address() + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        if (MADVISE.isPresent()) {
            try {
                // this is only advice: without it pages are small and nothing else changes
                int ignored = (int) MADVISE.get().invokeExact(MemorySegment.ofAddress(aligned), bytes, MADV_HUGEPAGE);
            } catch (Throwable e) {
                throw ForeignCall.failed("madvise", e);
            }
        }
        return memory.asSlice(aligned - memory.address(), bytes);
    }

    private static void free(MemorySegment memory) {
        try {
            FREE.invokeExact(memory);
        } catch (Throwable e) {
            throw ForeignCall.failed("free", e);
        }
    }
}
