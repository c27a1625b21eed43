package dev.tandem.cpu.simd;

import dev.tandem.cpu.topology.ForeignCall;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;
import java.util.Optional;

/**
 * Software prefetch: asks for cache lines without waiting for them. Java has no prefetch instruction, and an early load
 * would stall everything behind it. So this is a few bytes of machine code in an executable page, called as a critical
 * native function, without a change of the thread's state. Decode attention needs it to overlap reads with arithmetic.
 */
public final class Prefetch {
    private static final int LINE = 64;
    private static final long PAGE = 4096;
    private static final int READ_WRITE = 1 | 2;
    private static final int READ_EXECUTE = 1 | 4;
    private static final int PRIVATE_ANONYMOUS = 0x02 | 0x20;
    /** Offset of the second function in the page. */
    private static final int FOUR_AT = 64;
    /**
     * Whether a range is prefetched in four quarters side by side instead of from its beginning to its end. Measured
     * with 512 bits on Sapphire Rapids: attention is then a third faster. With 256 bits on Zen 3 it is not faster.
     */
    private static final boolean QUARTERS = Lanes.bits() >= 512;
    /** (from, to) in rdi and rsi: {@code next: prefetcht1 [rdi]; add rdi, 64; cmp rdi, rsi; jb next; ret}. */
    private static final byte[] ONE = {
        0x0f, 0x18, 0x17, 0x48, (byte) 0x83, (byte) 0xc7, LINE, 0x48, 0x39, (byte) 0xf7, 0x72, (byte) 0xf4, (byte) 0xc3
    };

    /**
     * As {@link #ONE}, with a distance in rdx and three times the distance in rcx. It prefetches four lines per
     * iteration: {@code [rdi]}, {@code [rdi + rdx]}, {@code [rdi + 2 rdx]} and {@code [rdi + rcx]}.
     */
    private static final byte[] FOUR = {
        0x0f,
        0x18,
        0x17,
        0x0f,
        0x18,
        0x14,
        0x17,
        0x0f,
        0x18,
        0x14,
        0x57,
        0x0f,
        0x18,
        0x14,
        0x0f,
        0x48,
        (byte) 0x83,
        (byte) 0xc7,
        LINE,
        0x48,
        0x39,
        (byte) 0xf7,
        0x72,
        (byte) 0xe8,
        (byte) 0xc3
    };

    /** The two functions; where the machine has none they do nothing, and {@code reason} says why. */
    private record Code(MethodHandle one, MethodHandle four, String reason) {
        static Code missing(String reason) {
            return new Code(
                    MethodHandles.empty(MethodType.methodType(void.class, long.class, long.class)),
                    MethodHandles.empty(
                            MethodType.methodType(void.class, long.class, long.class, long.class, long.class)),
                    reason);
        }
    }

    private static final Code CODE = load();
    private static final MethodHandle PREFETCH_ONE = CODE.one();
    private static final MethodHandle PREFETCH_FOUR = CODE.four();

    private Prefetch() {}

    private static Code load() {
        if (!System.getProperty("os.arch").equals("amd64")
                || !System.getProperty("os.name").equals("Linux")) {
            return Code.missing("it exists for Linux on x86-64 only");
        }
        Linker linker = Linker.nativeLinker();
        Optional<MemorySegment> mmap = linker.defaultLookup().find("mmap");
        Optional<MemorySegment> mprotect = linker.defaultLookup().find("mprotect");
        if (mmap.isEmpty() || mprotect.isEmpty()) {
            return Code.missing("the system has no mmap or mprotect");
        }
        try {
            MethodHandle map = linker.downcallHandle(
                    mmap.get(),
                    FunctionDescriptor.of(
                            ValueLayout.JAVA_LONG,
                            ValueLayout.JAVA_LONG,
                            ValueLayout.JAVA_LONG,
                            ValueLayout.JAVA_INT,
                            ValueLayout.JAVA_INT,
                            ValueLayout.JAVA_INT,
                            ValueLayout.JAVA_LONG));
            MethodHandle protect = linker.downcallHandle(
                    mprotect.get(),
                    FunctionDescriptor.of(
                            ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));
            long page = (long) map.invokeExact(0L, PAGE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0L);
            if (page == -1) {
                return Code.missing("the system does not grant a page for its code");
            }
            MemorySegment.copy(ONE, 0, Lanes.MEMORY, ValueLayout.JAVA_BYTE, page, ONE.length);
            MemorySegment.copy(FOUR, 0, Lanes.MEMORY, ValueLayout.JAVA_BYTE, page + FOUR_AT, FOUR.length);
            if ((int) protect.invokeExact(page, PAGE, READ_EXECUTE) != 0) {
                return Code.missing("the system does not let a page that was written become executable");
            }
            return new Code(function(linker, page, 2), function(linker, page + FOUR_AT, 4), "");
        } catch (Throwable e) {
            throw ForeignCall.failed("mmap or mprotect", e);
        }
    }

    private static MethodHandle function(Linker linker, long address, int arguments) {
        MemoryLayout[] longs = new MemoryLayout[arguments];
        Arrays.fill(longs, ValueLayout.JAVA_LONG);
        return linker.downcallHandle(
                MemorySegment.ofAddress(address), FunctionDescriptor.ofVoid(longs), Linker.Option.critical(false));
    }

    /** A phrase for the log: why this machine cannot prefetch; empty if it can. */
    public static String missing() {
        return CODE.reason();
    }

    /**
     * Prefetches the cache lines of {@code [from, to)}, at least one. If {@code distance} is not 0, it also prefetches
     * the three ranges that lie one, two and three distances after it. Addresses that are not mapped are ignored. Does
     * nothing on a machine that cannot prefetch.
     */
    static void lines(long from, long to, long distance) {
        try {
            if (distance == 0) {
                PREFETCH_ONE.invokeExact(from, to);
            } else {
                PREFETCH_FOUR.invokeExact(from, to, distance, 3 * distance);
            }
        } catch (Throwable e) {
            throw ForeignCall.failed("prefetch", e);
        }
    }

    /**
     * A range of memory that is prefetched piece by piece, between pieces of other work.
     *
     * <p>Owned by: one thread.
     */
    public static final class Ahead {
        /** Unused longs on either side of the state, as {@link Lanes#APART}. */
        private static final int APART = Lanes.APART * Float.BYTES / Long.BYTES;

        private static final int AT = APART;
        private static final int END = APART + 1;
        private static final int PIECE = APART + 2;
        /** Distance to the next quarter; 0 if the range is prefetched from its beginning to its end. */
        private static final int DISTANCE = APART + 3;

        private final long[] state = new long[2 * APART + 4];

        /** Sets the range to {@code [address, address + bytes)}; nothing if {@code bytes} is 0. */
        public void setRange(long address, long bytes) {
            long distance = QUARTERS && bytes % (4 * LINE) == 0 ? bytes / 4 : 0;
            state[AT] = address;
            state[DISTANCE] = distance;
            state[END] = address + (distance == 0 ? bytes : distance);
        }

        /** Divides what is left of the range into {@code pieces} pieces of whole cache lines. */
        public void divide(int pieces) {
            state[PIECE] = ((state[END] - state[AT]) / pieces + LINE - 1) / LINE * LINE;
        }

        /** Bytes that are left. */
        long left() {
            return (state[END] - state[AT]) * (state[DISTANCE] == 0 ? 1 : 4);
        }

        /** Prefetches the next piece; does nothing at the end of the range. */
        void prefetchPiece() {
            long at = state[AT];
            if (at < state[END]) {
                long to = Math.min(state[END], at + state[PIECE]);
                lines(at, to, state[DISTANCE]);
                state[AT] = to;
            }
        }
    }
}
