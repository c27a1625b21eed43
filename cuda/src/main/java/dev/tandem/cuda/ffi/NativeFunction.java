package dev.tandem.cuda.ffi;

import dev.tandem.cpu.topology.ForeignCall;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/** A C function that returns a status code, 0 for success. */
public final class NativeFunction {
    /** Names a status code. */
    @FunctionalInterface
    interface Namer {
        String name(int code);
    }

    private final String name;
    /** Null when the library lacks the function. */
    private final @Nullable MethodHandle handle;

    private final Namer namer;

    NativeFunction(SymbolLookup library, Namer namer, String name, MemoryLayout... arguments) {
        this.name = name;
        this.namer = namer;
        this.handle = library.find(name)
                .map(symbol -> Linker.nativeLinker()
                        .downcallHandle(symbol, FunctionDescriptor.of(ValueLayout.JAVA_INT, arguments))
                        .asSpreader(Object[].class, arguments.length))
                .orElse(null);
    }

    /** Whether the library has the function; older drivers lack some. */
    public boolean exists() {
        return handle != null;
    }

    /** Calls the function and returns its status code. */
    public int code(Object... arguments) {
        if (handle == null) {
            throw new CudaException(
                    name + " is missing from this machine's library: the driver or the library is too old");
        }
        try {
            return (int) handle.invokeExact(arguments);
        } catch (Throwable e) {
            throw ForeignCall.failed(name, e);
        }
    }

    /**
     * Calls the function.
     *
     * @throws CudaException with function and code name when the status is not 0
     */
    public void call(Object... arguments) {
        check(code(arguments));
    }

    private void check(int code) {
        if (code != 0) {
            throw new CudaException(name + " failed: " + namer.name(code) + " (" + code + ")", code);
        }
    }
}
