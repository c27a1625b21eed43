package dev.tandem.app;

import dev.tandem.cpu.topology.ForeignCall;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** Changes how signals end the process, on POSIX systems. */
final class ProcessSignals {
    /** Values from signal.h, the same on Linux and macOS. */
    private static final int SIGINT = 2;

    private static final int SIGTERM = 15;

    private ProcessSignals() {}

    /**
     * Restores the default action of SIGINT and SIGTERM, so that the next one ends the process at once. Java's handler
     * runs the shutdown hooks at the first signal, and ignores further ones while they run.
     */
    static void endAtOnce() {
        MethodHandle signal = Linker.nativeLinker()
                .downcallHandle(
                        Linker.nativeLinker().defaultLookup().findOrThrow("signal"),
                        FunctionDescriptor.of(ValueLayout.ADDRESS, ValueLayout.JAVA_INT, ValueLayout.ADDRESS));
        try {
            for (int number : new int[] {SIGINT, SIGTERM}) {
                MemorySegment before = (MemorySegment) signal.invokeExact(number, MemorySegment.NULL); // SIG_DFL
                if (before.address() == -1) { // SIG_ERR
                    throw new IllegalStateException("signal(" + number + ") failed");
                }
            }
        } catch (Throwable e) {
            throw ForeignCall.failed("signal", e);
        }
    }
}
