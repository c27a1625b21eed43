package dev.tandem.cpu.decode;

import dev.tandem.cpu.topology.CpuInfo;
import dev.tandem.cpu.topology.ForeignCall;
import dev.tandem.cpu.topology.NativeLibrary;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * The compiled kernel of {@code src/main/native/decode_amx.c}. It is loaded once, if the build compiled it, the
 * processor has AMX with bf16, and the operating system lets this process use AMX.
 */
public final class AmxLibrary {
    private record Loaded(Optional<AmxLibrary> library, String reason) {}

    private static final Loaded LOADED = load();

    private final MethodHandle partial;
    private final MethodHandle read;

    private AmxLibrary(MethodHandle partial, MethodHandle read) {
        this.partial = partial;
        this.read = read;
    }

    /** The library, or empty if it cannot be used; {@link #reason} says why. */
    public static Optional<AmxLibrary> find() {
        return LOADED.library();
    }

    /** A phrase for the log: why the library cannot be used, or "AMX with bf16". */
    public static String reason() {
        return LOADED.reason();
    }

    private static Loaded load() {
        if (!CpuInfo.features().contains("amx_bf16") || !CpuInfo.features().contains("avx512_bf16")) {
            return new Loaded(Optional.empty(), "this processor has no AMX with bf16");
        }
        try {
            return link(NativeLibrary.open("tandem-amx"));
        } catch (NativeLibrary.UnavailableException e) {
            return new Loaded(Optional.empty(), String.valueOf(e.getMessage()));
        }
    }

    private static Loaded link(SymbolLookup symbols) {
        Linker linker = Linker.nativeLinker();
        MethodHandle request = linker.downcallHandle(
                symbols.findOrThrow("tandem_amx_request"), FunctionDescriptor.of(ValueLayout.JAVA_INT));
        try {
            int refused = (int) request.invokeExact();
            if (refused != 0) {
                return new Loaded(Optional.empty(), "the operating system does not let this process use AMX");
            }
        } catch (Throwable e) {
            throw ForeignCall.failed("tandem_amx_request", e);
        }
        MethodHandle partial = linker.downcallHandle(
                symbols.findOrThrow("tandem_amx_partial"), FunctionDescriptor.ofVoid(ValueLayout.ADDRESS));
        MethodHandle read = linker.downcallHandle(
                symbols.findOrThrow("tandem_read"),
                FunctionDescriptor.of(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.JAVA_LONG));
        return new Loaded(Optional.of(new AmxLibrary(partial, read)), "AMX with bf16");
    }

    /**
     * Computes one partial result.
     *
     * @param task the argument, laid out as {@link AmxDecodeAttention#TASK}
     */
    void partial(MemorySegment task) {
        try {
            partial.invokeExact(task);
        } catch (Throwable e) {
            throw ForeignCall.failed("tandem_amx_partial", e);
        }
    }

    /** Reads {@code bytes}, a multiple of 256, with software prefetch; returns a value that depends on every byte. */
    public long read(long address, long bytes) {
        try {
            return (long) read.invokeExact(MemorySegment.ofAddress(address), bytes);
        } catch (Throwable e) {
            throw ForeignCall.failed("tandem_read", e);
        }
    }
}
