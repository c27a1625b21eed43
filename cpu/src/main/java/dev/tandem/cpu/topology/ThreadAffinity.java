package dev.tandem.cpu.topology;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.BitSet;
import java.util.Optional;

/** Which cores a thread may run on: {@code sched_getaffinity} and {@code sched_setaffinity} where they exist (Linux). */
public final class ThreadAffinity {
    private static final int SET_BYTES = 128;
    private static final FunctionDescriptor SIGNATURE = FunctionDescriptor.of(
            ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
    private static final Optional<MethodHandle> GET = find("sched_getaffinity");
    private static final Optional<MethodHandle> SET = find("sched_setaffinity");

    private ThreadAffinity() {}

    private static Optional<MethodHandle> find(String name) {
        Linker linker = Linker.nativeLinker();
        return linker.defaultLookup().find(name).map(symbol -> linker.downcallHandle(symbol, SIGNATURE));
    }

    /** Cores this thread may use; empty where the system does not say. */
    public static BitSet allowed() {
        if (GET.isEmpty()) {
            return new BitSet();
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment set = arena.allocate(SET_BYTES);
            int result = call(GET.get(), set);
            return result < 0 ? new BitSet() : BitSet.valueOf(set.toArray(ValueLayout.JAVA_BYTE));
        }
    }

    /** Binds the calling thread to one core; false where that is not possible. */
    public static boolean pin(int core) {
        if (SET.isEmpty()) {
            return false;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment set = arena.allocate(SET_BYTES);
            set.set(ValueLayout.JAVA_BYTE, core / 8, (byte) (1 << core % 8));
            return call(SET.get(), set) == 0;
        }
    }

    private static int call(MethodHandle handle, MemorySegment set) {
        try {
            return (int) handle.invokeExact(0, (long) SET_BYTES, set);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("sched affinity", e);
        }
    }
}
