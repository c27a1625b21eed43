package dev.tandem.app;

import dev.tandem.cpu.topology.ForeignCall;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;

/** What the system does when a signal comes, on POSIX systems. */
final class ProcessSignals {
    /** signal.h of Linux and macOS. */
    private static final int SIGINT = 2;

    private static final int SIGTERM = 15;

    private ProcessSignals() {}

    /**
     * Gives SIGINT and SIGTERM back to the system: the next one ends the process at once. Java's own handler answers
     * the first with the shutdown hooks, and ignores every further one while they run.
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
