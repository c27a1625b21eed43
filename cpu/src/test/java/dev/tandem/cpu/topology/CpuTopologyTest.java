package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class CpuTopologyTest {
    @Test
    void coresComeBeforeSiblingsAndNodesOneAfterTheOther(@TempDir Path system) throws IOException {
        // two nodes of two cores with two hardware threads each: 0, 4 | 1, 5 on node 0 and 2, 6 | 3, 7 on node 1
        for (int cpu = 0; cpu < 8; cpu++) {
            write(system.resolve("cpu/cpu" + cpu + "/topology/thread_siblings_list"), cpu % 4 + "," + (cpu % 4 + 4));
        }
        write(system.resolve("node/node0/cpulist"), "0-1,4-5");
        write(system.resolve("node/node1/cpulist"), "2-3,6-7");
        BitSet all = new BitSet();
        all.set(0, 8);
        CpuTopology whole = CpuTopology.find(all, system, 8);
        assertThat(whole.order()).containsExactly(0, 1, 2, 3, 4, 5, 6, 7);
        assertThat(whole.cores()).isEqualTo(4);
        assertThat(whole.nodes()).isEqualTo(2);
        BitSet second = new BitSet();
        second.set(2, 4);
        second.set(6, 8);
        assertThat(CpuTopology.find(second, system, 8).order()).containsExactly(2, 3, 6, 7);
        assertThat(CpuTopology.find(all, system, 3).order()).as("a container's quota").containsExactly(0, 1, 2);
    }

    @Test
    void aSystemThatSaysNothingHasCoresInOrder(@TempDir Path nothing) {
        BitSet all = new BitSet();
        all.set(1, 4);
        CpuTopology topology = CpuTopology.find(all, nothing, 8);
        assertThat(topology.order()).containsExactly(1, 2, 3);
        assertThat(topology.cores()).isEqualTo(3);
    }

    private static void write(Path file, String text) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, text + "\n");
    }
}
