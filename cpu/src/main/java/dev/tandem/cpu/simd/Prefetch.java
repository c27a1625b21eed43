package dev.tandem.cpu.simd;

import dev.tandem.cpu.topology.ForeignCall;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Arrays;
import java.util.Optional;

/**
 * Brings memory towards this core without waiting for it. Java has no prefetch instruction, and a load of what will be
 * read later holds up everything behind it; so this is a few bytes of machine code in a page of their own, called
 * without leaving Java's state. Decode attention reads memory and computes at the same time only with it.
 */
public final class Prefetch {
    private static final int LINE = 64;
    private static final long PAGE = 4096;
    private static final int READ_WRITE = 1 | 2;
    private static final int READ_EXECUTE = 1 | 4;
    private static final int PRIVATE_ANONYMOUS = 0x02 | 0x20;
    /** Where the second piece of code begins in the page. */
    private static final int FOUR_AT = 64;
    /**
     * With vectors of 512 bits a stretch is asked for in four quarters side by side: on Sapphire Rapids attention is
     * then a third faster than from one end to the other; on Zen 3, which has 256, it is not.
     */
    private static final boolean QUARTERS = Lanes.bits() >= 512;
    /** For {@code (from, to)} in rdi and rsi: next: prefetcht1 [rdi]; add rdi, 64; cmp rdi, rsi; jb next; ret. */
    private static final byte[] ONE = {
        0x0f, 0x18, 0x17, 0x48, (byte) 0x83, (byte) 0xc7, LINE, 0x48, 0x39, (byte) 0xf7, 0x72, (byte) 0xf4, (byte) 0xc3
    };

    /**
     * Likewise, with a distance in rdx and three times as much in rcx: [rdi], [rdi + rdx], [rdi + 2 rdx] and [rdi +
     * rcx].
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

    private record Made(MethodHandle one, MethodHandle four, String reason) {
        static Made not(String reason) {
            return new Made(null, null, reason);
        }
    }

    private static final Made MADE = make();
    private static final MethodHandle IN_ONE = MADE.one();
    private static final MethodHandle IN_FOUR = MADE.four();

    private Prefetch() {}

    private static Made make() {
        if (!System.getProperty("os.arch").equals("amd64")
                || !System.getProperty("os.name").equals("Linux")) {
            return Made.not("it is there for Linux on x86-64 alone");
        }
        Linker linker = Linker.nativeLinker();
        Optional<MemorySegment> mmap = linker.defaultLookup().find("mmap");
        Optional<MemorySegment> mprotect = linker.defaultLookup().find("mprotect");
        if (mmap.isEmpty() || mprotect.isEmpty()) {
            return Made.not("the system has no mmap");
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
                return Made.not("the system gives no page for it");
            }
            MemorySegment.copy(ONE, 0, Lanes.MEMORY, ValueLayout.JAVA_BYTE, page, ONE.length);
            MemorySegment.copy(FOUR, 0, Lanes.MEMORY, ValueLayout.JAVA_BYTE, page + FOUR_AT, FOUR.length);
            if ((int) protect.invokeExact(page, PAGE, READ_EXECUTE) != 0) {
                return Made.not("the system lets no page be executed that was written");
            }
            return new Made(code(linker, page, 2), code(linker, page + FOUR_AT, 4), "");
        } catch (Throwable e) {
            throw ForeignCall.failed("mmap or mprotect", e);
        }
    }

    private static MethodHandle code(Linker linker, long address, int arguments) {
        MemoryLayout[] longs = new MemoryLayout[arguments];
        Arrays.fill(longs, ValueLayout.JAVA_LONG);
        return linker.downcallHandle(
                MemorySegment.ofAddress(address), FunctionDescriptor.ofVoid(longs), Linker.Option.critical(false));
    }

    /** Why this machine has none; empty where it has. */
    public static String missing() {
        return MADE.reason();
    }

    /**
     * Asks for the cache lines of {@code [from, to)}, at least one, and with a distance other than 0 of three stretches
     * more, so far apart; a no-op where there is no prefetch. Any address will do: what is not mapped is passed over.
     */
    static void lines(long from, long to, long distance) {
        if (IN_ONE == null) {
            return;
        }
        try {
            if (distance == 0) {
                IN_ONE.invokeExact(from, to);
            } else {
                IN_FOUR.invokeExact(from, to, distance, 3 * distance);
            }
        } catch (Throwable e) {
            throw ForeignCall.failed("prefetch", e);
        }
    }

    /** A stretch of memory that is asked for piece by piece, between pieces of other work. Owned by one thread. */
    public static final class Ahead {
        /** Longs on either side that nobody uses, as {@link Lanes#APART}. */
        private static final int APART = Lanes.APART * Float.BYTES / Long.BYTES;

        private static final int AT = APART;
        private static final int END = APART + 1;
        private static final int PIECE = APART + 2;
        /** To the next quarter; 0 where the stretch is taken as a whole. */
        private static final int DISTANCE = APART + 3;

        private final long[] state = new long[2 * APART + 4];

        /** From now on {@code [address, address + bytes)}; nothing if {@code bytes} is 0. */
        public void over(long address, long bytes) {
            long distance = QUARTERS && bytes % (4 * LINE) == 0 ? bytes / 4 : 0;
            state[AT] = address;
            state[DISTANCE] = distance;
            state[END] = address + (distance == 0 ? bytes : distance);
        }

        /** Spreads what is left over so many pieces. */
        public void spread(int pieces) {
            state[PIECE] = ((state[END] - state[AT]) / pieces + LINE - 1) / LINE * LINE;
        }

        long left() {
            return (state[END] - state[AT]) * (state[DISTANCE] == 0 ? 1 : 4);
        }

        void more() {
            long at = state[AT];
            if (at < state[END]) {
                long to = Math.min(state[END], at + state[PIECE]);
                lines(at, to, state[DISTANCE]);
                state[AT] = to;
            }
        }
    }
}
