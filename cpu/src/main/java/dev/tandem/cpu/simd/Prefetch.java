package dev.tandem.cpu.simd;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/**
 * Brings memory towards this core without waiting for it. Java has no prefetch instruction, and a load of what will be read
 * later holds up everything behind it; so this is thirteen bytes of machine code in a page of their own, called without leaving
 * Java's state. Decode attention reads memory and computes at the same time only with it.
 */
public final class Prefetch {
    private static final int LINE = 64;
    private static final long PAGE = 4096;
    private static final int READ_WRITE = 1 | 2;
    private static final int READ_EXECUTE = 1 | 4;
    private static final int PRIVATE_ANONYMOUS = 0x02 | 0x20;
    /** For {@code (from, to)} in rdi and rsi: next: prefetcht1 [rdi]; add rdi, 64; cmp rdi, rsi; jb next; ret. */
    private static final byte[] X86 = {0x0f, 0x18, 0x17, 0x48, (byte) 0x83, (byte) 0xc7, LINE, 0x48, 0x39, (byte) 0xf7, 0x72, (byte) 0xf4, (byte) 0xc3};

    private record Made(MethodHandle lines, String reason) {}

    private static final Made MADE = make();
    private static final MethodHandle LINES = MADE.lines();

    private Prefetch() {}

    private static Made make() {
        if (!System.getProperty("os.arch").equals("amd64") || !System.getProperty("os.name").equals("Linux")) {
            return new Made(null, "it is there for Linux on x86-64 alone");
        }
        Linker linker = Linker.nativeLinker();
        Optional<MemorySegment> mmap = linker.defaultLookup().find("mmap");
        Optional<MemorySegment> mprotect = linker.defaultLookup().find("mprotect");
        if (mmap.isEmpty() || mprotect.isEmpty()) {
            return new Made(null, "the system has no mmap");
        }
        try {
            MethodHandle map = linker.downcallHandle(mmap.get(), FunctionDescriptor.of(
                    ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT,
                    ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG));
            MethodHandle protect = linker.downcallHandle(mprotect.get(), FunctionDescriptor.of(
                    ValueLayout.JAVA_INT, ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG, ValueLayout.JAVA_INT));
            long page = (long) map.invokeExact(0L, PAGE, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0L);
            if (page == -1) {
                return new Made(null, "the system gives no page for it");
            }
            MemorySegment.copy(X86, 0, Lanes.MEMORY, ValueLayout.JAVA_BYTE, page, X86.length);
            if ((int) protect.invokeExact(page, PAGE, READ_EXECUTE) != 0) {
                return new Made(null, "the system lets no page be executed that was written");
            }
            MethodHandle lines = linker.downcallHandle(
                    MemorySegment.ofAddress(page), FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG),
                    Linker.Option.critical(false));
            return new Made(lines, "");
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("mmap or mprotect", e);
        }
    }

    /** Why this machine has none; empty where it has. */
    public static String missing() {
        return MADE.reason();
    }

    /**
     * Asks for the cache lines of {@code [from, to)}, at least one; a no-op where there is no prefetch. Any address will do:
     * what is not mapped is passed over.
     */
    static void lines(long from, long to) {
        if (LINES == null) {
            return;
        }
        try {
            LINES.invokeExact(from, to);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new IllegalStateException("prefetch", e);
        }
    }

    /** A stretch of memory that is asked for piece by piece, between pieces of other work. Owned by one thread. */
    public static final class Ahead {
        private long at;
        private long end;
        private long piece;

        /** From now on {@code [address, address + bytes)}; nothing if {@code bytes} is 0. */
        public void over(long address, long bytes) {
            at = address;
            end = address + bytes;
        }

        /** Spreads what is left over so many calls of {@link #more}. */
        void spread(int calls) {
            piece = ((end - at) / calls + LINE - 1) / LINE * LINE;
        }

        long left() {
            return end - at;
        }

        void more() {
            if (at < end) {
                long to = Math.min(end, at + piece);
                lines(at, to);
                at = to;
            }
        }
    }
}
