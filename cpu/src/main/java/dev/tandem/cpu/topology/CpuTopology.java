package dev.tandem.cpu.topology;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;
import java.util.OptionalDouble;
import java.util.TreeMap;

/**
 * The hardware threads that this process may use, in the order in which pinned workers should take them. First comes
 * one hardware thread of every core, node by node, then their siblings, which share a core's bandwidth.
 *
 * @param order numbers of the hardware threads; empty if the system does not tell
 * @param cores physical cores among them
 * @param nodes numbers of the NUMA nodes on which the process may run, ascending
 * @param limited whether a CPU quota grants less time than the hardware threads the process may run on. The system then
 *     decides where the process runs, and other processes with a quota may be bound to the same cores
 */
public record CpuTopology(List<Integer> order, int cores, List<Integer> nodes, boolean limited) {
    private static final Path ROOT = Path.of("/");

    private record HardwareThread(int number, int node, int sibling) {}

    /** The topology of this process, from its affinity mask, its control groups and the JVM's count of processors. */
    public static CpuTopology find() {
        return find(ThreadAffinity.allowed(), ROOT, Runtime.getRuntime().availableProcessors());
    }

    /**
     * The topology of a process.
     *
     * @param allowed the hardware threads in its affinity mask
     * @param root the root of the file system, with {@code sys} and {@code proc}
     * @param max the maximum of hardware threads to use
     */
    static CpuTopology find(BitSet allowed, Path root, int max) {
        Path system = root.resolve("sys/devices/system");
        TreeMap<Integer, BitSet> nodes = nodes(system.resolve("node"));
        List<HardwareThread> threads = new ArrayList<>();
        allowed.stream()
                .forEach(number -> threads.add(
                        new HardwareThread(number, node(nodes, number), siblingsBefore(system, number, allowed))));
        threads.sort(Comparator.comparingInt(HardwareThread::sibling)
                .thenComparingInt(HardwareThread::node)
                .thenComparingInt(HardwareThread::number));
        List<Integer> order =
                threads.stream().limit(max).map(HardwareThread::number).toList();
        int cores = (int) threads.stream()
                .limit(max)
                .filter(thread -> thread.sibling() == 0)
                .count();
        List<Integer> all =
                threads.stream().map(HardwareThread::node).distinct().sorted().toList();
        OptionalDouble quota = CpuQuota.find(root);
        boolean limited = max < threads.size() || quota.isPresent() && quota.getAsDouble() < threads.size();
        return new CpuTopology(order, cores, all, limited);
    }

    /** Whether {@code threads} threads may each be bound to a hardware thread of their own. */
    public boolean canPin(int threads) {
        return !limited && threads <= order.size();
    }

    /** The reason why {@link #canPin} is false, for a log line. */
    public String pinObstacle(int threads) {
        if (order.isEmpty()) {
            return "this system cannot bind threads to cores";
        }
        return limited
                ? "this process has a CPU quota below the cores it may run on, so other processes may use the "
                        + "same cores"
                : threads + " threads are more than the " + order.size() + " hardware threads this process may use";
    }

    /** The number of allowed hardware threads of the same core with lower numbers. */
    private static int siblingsBefore(Path system, int number, BitSet allowed) {
        BitSet siblings = list(system.resolve("cpu/cpu" + number + "/topology/thread_siblings_list"), number);
        siblings.and(allowed);
        return siblings.get(0, number).cardinality();
    }

    /** The hardware threads of each NUMA node. */
    private static TreeMap<Integer, BitSet> nodes(Path directory) {
        TreeMap<Integer, BitSet> nodes = new TreeMap<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory, "node[0-9]*")) {
            for (Path entry : entries) {
                int number = Integer.parseInt(entry.getFileName().toString().substring("node".length()));
                nodes.put(number, list(entry.resolve("cpulist"), -1));
            }
        } catch (IOException | NumberFormatException e) {
            // a system that does not list its nodes is treated as having one
            nodes.clear();
        }
        return nodes;
    }

    private static int node(TreeMap<Integer, BitSet> nodes, int number) {
        for (var node : nodes.entrySet()) {
            if (node.getValue().get(number)) {
                return node.getKey();
            }
        }
        return 0;
    }

    /** Reads a list like {@code 0-3,8}. If the file cannot be read: {@code otherwise} alone, or nothing if negative. */
    private static BitSet list(Path file, int otherwise) {
        BitSet set = new BitSet();
        try {
            for (String range : Files.readString(file).strip().split(",")) {
                String[] ends = range.split("-");
                if (!range.isEmpty()) {
                    set.set(Integer.parseInt(ends[0]), Integer.parseInt(ends[ends.length - 1]) + 1);
                }
            }
        } catch (IOException | NumberFormatException e) {
            set.clear();
            if (otherwise >= 0) {
                set.set(otherwise);
            }
        }
        return set;
    }
}
