package dev.tandem.cpu.simd;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import dev.tandem.cpu.topology.CpuInfo;
import dev.tandem.cpu.topology.ForeignCall;
import dev.tandem.cpu.topology.NativeLibrary;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.Optional;

/**
 * The compiled kernel of {@code src/main/native/int8_gemm.c}: GEMM of int8 activations with packed quants. It is loaded
 * once, if the build compiled it and the processor has AVX-512 with VNNI.
 *
 * <p>It is native because the Vector API has no dot product of bytes. Calls are short and touch arrays in place, so the
 * garbage collector waits for them.
 */
public final class Int8Kernel {
    private static final List<String> FEATURES = List.of("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni");
    private static final int BITS = 512;
    /**
     * Panels per call. With one panel, calls and copies of tiles took 5 % of a decoding step; a long call would make
     * the garbage collector wait.
     */
    private static final int PANELS_PER_CALL = 32;

    private record Loaded(Optional<Int8Kernel> kernel, String reason) {}

    private static final Loaded LOADED = load();

    private final MethodHandle arrange;
    private final MethodHandle multiply;

    private Int8Kernel(MethodHandle arrange, MethodHandle multiply) {
        this.arrange = arrange;
        this.multiply = multiply;
    }

    /** The kernel, or empty if it cannot be used; {@link #obstacle} says why. */
    public static Optional<Int8Kernel> find() {
        return LOADED.kernel();
    }

    /** Why the kernel cannot be used; empty if it can. */
    public static String obstacle() {
        return LOADED.reason();
    }

    private static Loaded load() {
        if (!CpuInfo.features().containsAll(FEATURES)) {
            return new Loaded(Optional.empty(), "this processor has no AVX-512 with VNNI");
        }
        if (Lanes.bits() != BITS) {
            return new Loaded(
                    Optional.empty(), "panels are for vectors of " + Lanes.bits() + " bits, not of " + BITS + " bits");
        }
        try {
            SymbolLookup symbols = NativeLibrary.open("tandem-int8");
            return new Loaded(
                    Optional.of(new Int8Kernel(
                            handle(
                                    symbols,
                                    "tandem_int8_arrange",
                                    ADDRESS,
                                    JAVA_INT,
                                    JAVA_INT,
                                    JAVA_INT,
                                    JAVA_INT,
                                    ADDRESS,
                                    ADDRESS,
                                    ADDRESS),
                            handle(
                                    symbols,
                                    "tandem_int8_multiply",
                                    JAVA_INT,
                                    ADDRESS,
                                    JAVA_INT,
                                    JAVA_INT,
                                    ADDRESS,
                                    ADDRESS,
                                    ADDRESS,
                                    JAVA_INT,
                                    JAVA_INT,
                                    ADDRESS))),
                    "");
        } catch (NativeLibrary.UnavailableException e) {
            return new Loaded(Optional.empty(), String.valueOf(e.getMessage()));
        }
    }

    private static MethodHandle handle(SymbolLookup symbols, String name, ValueLayout... parameters) {
        return Linker.nativeLinker()
                .downcallHandle(
                        symbols.findOrThrow(name),
                        FunctionDescriptor.ofVoid(parameters),
                        Linker.Option.critical(true)); // may touch arrays
    }

    /**
     * Rounds a row to int8 per group of the format, with one step per group and the group's sum.
     *
     * @param x [depth] from {@code xo}
     * @param rows of the GEMM
     * @param row of them, which this is
     * @param quants [groups][rows][group]
     * @param steps [groups][rows]
     * @param sums [groups][rows]
     */
    void arrange(
            QuantFormat format,
            int depth,
            float[] x,
            int xo,
            int rows,
            int row,
            byte[] quants,
            float[] steps,
            float[] sums) {
        try {
            arrange.invokeExact(
                    from(x, xo),
                    depth,
                    format.bits,
                    format.group,
                    rows,
                    MemorySegment.ofArray(quants).asSlice((long) row * format.group),
                    from(steps, row),
                    from(sums, row));
        } catch (Throwable e) {
            throw ForeignCall.failed("tandem_int8_arrange", e);
        }
    }

    /**
     * Computes {@code out[row] += x[row] · panels} for rows {@code from .. from + count} of what {@link #arrange}
     * wrote.
     *
     * @param panels adjacent ones from {@code panel}
     * @param out [panels, count, {@link Lanes#PANEL}] from {@code oo}
     */
    void multiply(
            PackedMatrix.Quantised matrix,
            int panel,
            int panels,
            int rows,
            byte[] quants,
            float[] steps,
            float[] sums,
            int from,
            int count,
            float[] out,
            int oo) {
        QuantFormat format = matrix.format();
        try {
            for (int done = 0; done < panels; done += PANELS_PER_CALL) {
                multiply.invokeExact(
                        code(format),
                        MemorySegment.ofAddress(matrix.panel(panel + done)),
                        Math.min(PANELS_PER_CALL, panels - done),
                        matrix.depth(),
                        MemorySegment.ofArray(quants).asSlice((long) from * format.group),
                        from(steps, from),
                        from(sums, from),
                        rows,
                        count,
                        from(out, oo + done * count * Lanes.PANEL));
            }
        } catch (Throwable e) {
            throw ForeignCall.failed("tandem_int8_multiply", e);
        }
    }

    /** The number by which the C source knows a format. */
    private static int code(QuantFormat format) {
        return switch (format) {
            case Q4_0 -> 0;
            case Q4_1 -> 1;
            case Q5_0 -> 2;
            case Q5_1 -> 3;
            case Q8_0 -> 4;
            case Q4_K -> 5;
            case Q5_K -> 6;
            case Q6_K -> 7;
        };
    }

    private static MemorySegment from(float[] values, int at) {
        return MemorySegment.ofArray(values).asSlice(4L * at);
    }
}
