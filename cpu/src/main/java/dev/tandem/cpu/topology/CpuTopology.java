package dev.tandem.cpu.topology;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.List;

/**
 * The cores this process may use, in the order in which pinned workers should take them: first one hardware thread of
 * every core, node by node, then their siblings, which share a core's bandwidth.
 *
 * @param order numbers of the hardware threads; empty where the system does not say
 * @param cores physical cores among them
 * @param nodes NUMA nodes among them
 */
public record CpuTopology(List<Integer> order, int cores, int nodes) {
    private static final Path SYSTEM = Path.of("/sys/devices/system");

    private record HardwareThread(int number, int node, int sibling) {}

    /** This process's: affinity mask and, by the runtime's count of processors, container quota. */
    public static CpuTopology find() {
        return find(ThreadAffinity.allowed(), SYSTEM, Runtime.getRuntime().availableProcessors());
    }

    static CpuTopology find(BitSet allowed, Path system, int most) {
        List<HardwareThread> threads = new ArrayList<>();
        allowed.stream().forEach(number -> threads.add(new HardwareThread(
                number, node(system, number), siblings(system, number).get(0, number).cardinality())));
        threads.sort(Comparator.comparingInt(HardwareThread::sibling)
                .thenComparingInt(HardwareThread::node)
                .thenComparingInt(HardwareThread::number));
        List<Integer> order = threads.stream().limit(most).map(HardwareThread::number).toList();
        int cores = (int) threads.stream().limit(most).filter(thread -> thread.sibling() == 0).count();
        int nodes = (int) threads.stream().limit(most).mapToInt(HardwareThread::node).distinct().count();
        return new CpuTopology(order, cores, nodes);
    }

    private static BitSet siblings(Path system, int number) {
        return list(system.resolve("cpu/cpu" + number + "/topology/thread_siblings_list"), number);
    }

    private static int node(Path system, int number) {
        for (int node = 0; Files.exists(system.resolve("node/node" + node)); node++) {
            if (list(system.resolve("node/node" + node + "/cpulist"), -1).get(number)) {
                return node;
            }
        }
        return 0;
    }

    /** A list like {@code 0-3,8}; {@code otherwise} alone, if not negative, where the file cannot be read. */
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
