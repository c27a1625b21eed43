package dev.tandem.app;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Optional;

/** Whether people see standard error: {@link System#console} knows standard input and output alone. */
final class StandardError {
    private static final int DESCRIPTOR = 2;

    private StandardError() {}

    /** True where standard error goes to a terminal. */
    static boolean isTerminal() {
        Linker linker = Linker.nativeLinker();
        Optional<MemorySegment> isatty = linker.defaultLookup().find("isatty");
        if (isatty.isEmpty()) {
            return false; // no POSIX system
        }
        try {
            return (int) linker.downcallHandle(
                                    isatty.get(), FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT))
                            .invokeExact(DESCRIPTOR)
                    == 1;
        } catch (Throwable e) { // what a method handle declares; isatty itself throws nothing
            throw new IllegalStateException("isatty failed", e);
        }
    }
}
