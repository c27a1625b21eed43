package dev.tandem.cpu.topology;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Collectors;

/**
 * Interleaves the pages of large allocations over all NUMA nodes ({@code mbind} with {@code MPOL_INTERLEAVE}). Every
 * worker reads weights and KV, and one node's memory has only its own part of the machine's bandwidth. On a machine
 * with one node this does nothing.
 *
 * <p>Owned by: any thread. The system places a page when it is first written, so {@link #apply} must come before.
 */
public final class NumaInterleaving {
    /** Smaller allocations may reuse pages that the process has already written. */
    private static final long MIN_BYTES = 1L << 20;
    /** A multiple of every page size of Linux on x86 and ARM. */
    private static final long PAGE = 64 << 10;

    private static final int MPOL_INTERLEAVE = 3;
    private static final int MASK_BITS = 1024;
    /** The number of bits to pass: the kernel reads one bit less. */
    private static final long MAX_NODE = MASK_BITS + 1;
    /** Linux's error number for "no such system call". */
    private static final int ENOSYS = 38;

    /** The system call; tests replace it. */
    interface Binder {
        /** Interleaves a range of pages over the nodes; returns 0 or the error number. */
        int interleave(long address, long bytes, List<Integer> nodes);
    }

    private static final class Holder {
        static final NumaInterleaving SYSTEM =
                new NumaInterleaving(CpuTopology.find().nodes(), NumaInterleaving::interleave);
    }

    private final List<Integer> nodes;
    private final Binder binder;
    /** The error number of the first refusal; 0 while there was none. */
    private volatile int refused;

    NumaInterleaving(List<Integer> nodes, Binder binder) {
        this.nodes = nodes;
        this.binder = binder;
    }

    /** The instance for this process. */
    public static NumaInterleaving system() {
        return Holder.SYSTEM;
    }

    /** Interleaves the whole pages of an allocation that has not been written yet. */
    void apply(long address, long bytes) {
        if (nodes.size() < 2 || bytes < MIN_BYTES || refused != 0) {
            return;
        }
        long first = (address + PAGE - 1) / PAGE * PAGE;
        long last = (address + bytes) / PAGE * PAGE;
        refused = binder.interleave(first, last - first, nodes);
    }

    /** A line for the log about whether interleaving works; empty on a machine with one node. */
    public Optional<String> report() {
        if (nodes.size() < 2) {
            return Optional.empty();
        }
        String numbers = nodes.stream().map(String::valueOf).collect(Collectors.joining(", "));
        return Optional.of(
                refused == 0
                        ? "memory: weights and host KV are interleaved over NUMA nodes " + numbers
                        : "memory: weights and host KV are not interleaved over NUMA nodes " + numbers
                                + ", because mbind failed with error "
                                + refused
                                + "; each page lies on the node that first wrote it, so reads are slower. Allow mbind"
                                + " (in a container: --cap-add SYS_NICE), or start with numactl --interleave=all");
    }

    /** The system call number of {@code mbind}; empty if it is not known for this system. */
    private static OptionalLong callNumber() {
        if (!System.getProperty("os.name").equals("Linux")) {
            return OptionalLong.empty();
        }
        return switch (System.getProperty("os.arch")) {
            case "amd64", "x86_64" -> OptionalLong.of(237);
            case "aarch64" -> OptionalLong.of(235);
            default -> OptionalLong.empty();
        };
    }

    /**
     * The {@link Binder} of Linux. It uses the C library's {@code syscall}, because {@code mbind} itself is in libnuma,
     * which may not be installed.
     */
    static int interleave(long address, long bytes, List<Integer> nodes) {
        OptionalLong number = callNumber();
        if (number.isEmpty()) {
            return ENOSYS;
        }
        Linker linker = Linker.nativeLinker();
        Linker.Option state = Linker.Option.captureCallState("errno");
        MethodHandle syscall = linker.downcallHandle(
                linker.defaultLookup().findOrThrow("syscall"),
                FunctionDescriptor.of(
                        ValueLayout.JAVA_LONG,
                        ValueLayout.JAVA_LONG,
                        ValueLayout.JAVA_LONG,
                        ValueLayout.JAVA_LONG,
                        ValueLayout.JAVA_LONG,
                        ValueLayout.ADDRESS,
                        ValueLayout.JAVA_LONG,
                        ValueLayout.JAVA_LONG),
                Linker.Option.firstVariadicArg(1),
                state);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment mask = arena.allocate(MASK_BITS / 8, Long.BYTES);
            for (int node : nodes) {
                long at = node / 8;
                mask.set(ValueLayout.JAVA_BYTE, at, (byte) (mask.get(ValueLayout.JAVA_BYTE, at) | 1 << node % 8));
            }
            MemorySegment errno = arena.allocate(Linker.Option.captureStateLayout());
            long result = (long) syscall.invokeExact(
                    errno, number.getAsLong(), address, bytes, (long) MPOL_INTERLEAVE, mask, MAX_NODE, 0L);
            long offset = Linker.Option.captureStateLayout().byteOffset(MemoryLayout.PathElement.groupElement("errno"));
            return result == 0 ? 0 : errno.get(ValueLayout.JAVA_INT, offset);
        } catch (Throwable e) {
            throw ForeignCall.failed("mbind", e);
        }
    }
}
