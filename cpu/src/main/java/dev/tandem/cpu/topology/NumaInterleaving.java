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
 * Lays the pages of large allocations on all NUMA nodes in turn ({@code mbind} with {@code MPOL_INTERLEAVE}). Weights
 * and KV are read by every worker, and one node's memory gives only its own share of the machine's bandwidth. On a
 * machine of one node nothing is called.
 *
 * <p>Owned by: any thread; pages are placed when they are first written, which must come after.
 */
public final class NumaInterleaving {
    /** Smaller allocations may come from memory of the process that is written already. */
    private static final long MIN_BYTES = 1L << 20;
    /** A multiple of every page size of Linux on x86 and ARM. */
    private static final long PAGE = 64 << 10;

    private static final int MPOL_INTERLEAVE = 3;
    private static final int MASK_BITS = 1024;
    /** The kernel reads one bit less than it is told. */
    private static final long MAX_NODE = MASK_BITS + 1;
    /** No such system call, as Linux numbers it. */
    private static final int ENOSYS = 38;

    /** The system's call. */
    interface Binder {
        /** @return 0, or the error number */
        int interleave(long address, long bytes, List<Integer> nodes);
    }

    private static final class Holder {
        static final NumaInterleaving SYSTEM =
                new NumaInterleaving(CpuTopology.find().nodes(), NumaInterleaving::interleave);
    }

    private final List<Integer> nodes;
    private final Binder binder;
    private volatile int refused;

    NumaInterleaving(List<Integer> nodes, Binder binder) {
        this.nodes = nodes;
        this.binder = binder;
    }

    /** Of this process. */
    public static NumaInterleaving system() {
        return Holder.SYSTEM;
    }

    /** Interleaves the whole pages of an allocation that nobody has written yet. */
    void apply(long address, long bytes) {
        if (nodes.size() < 2 || bytes < MIN_BYTES || refused != 0) {
            return;
        }
        long first = (address + PAGE - 1) / PAGE * PAGE;
        long last = (address + bytes) / PAGE * PAGE;
        refused = binder.interleave(first, last - first, nodes);
    }

    /** What became of it, for the log; empty on a machine of one node. */
    public Optional<String> report() {
        if (nodes.size() < 2) {
            return Optional.empty();
        }
        String numbers = nodes.stream().map(String::valueOf).collect(Collectors.joining(", "));
        return Optional.of(
                refused == 0
                        ? "memory: weights and host KV are interleaved over NUMA nodes " + numbers
                        : "given up: weights and host KV are not interleaved over NUMA nodes " + numbers
                                + " (mbind: error "
                                + refused
                                + "); each page lies on the node that wrote it first. Allow mbind, in a container by"
                                + " --cap-add SYS_NICE, or start with numactl --interleave=all");
    }

    /** The number of {@code mbind}; empty where it is not known. */
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

    /** {@link Binder} by the C library's {@code syscall}: {@code mbind} is in a library that need not be there. */
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
