package dev.tandem.cpu.topology;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;

/**
 * Reads the cores that the process may use and binds threads to cores: {@code sched_getaffinity} and
 * {@code sched_setaffinity}, on Linux.
 *
 * <p>A new thread inherits the cores of the thread that starts it. This includes the carriers of virtual threads, and
 * any thread that wakes a virtual thread may start a carrier.
 */
public final class ThreadAffinity {
    private static final int SET_BYTES = 128;
    private static final int CALLER = 0;
    private static final FunctionDescriptor SIGNATURE = FunctionDescriptor.of(
            ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
    private static final Optional<MethodHandle> GET = find("sched_getaffinity");
    private static final Optional<MethodHandle> SET = find("sched_setaffinity");

    private ThreadAffinity() {}

    private static Optional<MethodHandle> find(String name) {
        Linker linker = Linker.nativeLinker();
        return linker.defaultLookup().find(name).map(symbol -> linker.downcallHandle(symbol, SIGNATURE));
    }

    /**
     * The cores that this process may use; empty if the system does not tell. It is the mask of the process's first
     * thread, so binding other threads does not change it.
     */
    public static BitSet allowed() {
        if (GET.isEmpty()) {
            return new BitSet();
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment set = arena.allocate(SET_BYTES);
            int result = call(GET.get(), (int) ProcessHandle.current().pid(), set);
            return result < 0 ? new BitSet() : BitSet.valueOf(set.toArray(ValueLayout.JAVA_BYTE));
        }
    }

    /** Binds the calling thread to one core; returns false if that is not possible. */
    public static boolean pin(int core) {
        return pin(List.of(core));
    }

    /** Binds the calling thread to a set of cores; returns false if that is not possible. */
    public static boolean pin(List<Integer> cores) {
        if (SET.isEmpty()) {
            return false;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment set = arena.allocate(SET_BYTES);
            BitSet mask = new BitSet();
            cores.forEach(mask::set);
            byte[] bytes = mask.toByteArray();
            MemorySegment.copy(bytes, 0, set, ValueLayout.JAVA_BYTE, 0, bytes.length);
            return call(SET.get(), CALLER, set) == 0;
        }
    }

    private static int call(MethodHandle handle, int thread, MemorySegment set) {
        try {
            return (int) handle.invokeExact(thread, (long) SET_BYTES, set);
        } catch (Throwable e) {
            throw ForeignCall.failed("sched affinity", e);
        }
    }
}
