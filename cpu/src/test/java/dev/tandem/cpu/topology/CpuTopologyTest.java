package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Order of cores and CPU quotas, read from files of a simulated system. */
class CpuTopologyTest {
    @Test
    void ordersCoresNodeByNodeBeforeSiblings(@TempDir Path root) throws IOException {
        Path system = root.resolve("sys/devices/system");
        // two nodes of two cores with two hardware threads each: 0, 4 | 1, 5 on node 0 and 2, 6 | 3, 7 on node 1
        for (int cpu = 0; cpu < 8; cpu++) {
            write(system.resolve("cpu/cpu" + cpu + "/topology/thread_siblings_list"), cpu % 4 + "," + (cpu % 4 + 4));
        }
        write(system.resolve("node/node0/cpulist"), "0-1,4-5");
        write(system.resolve("node/node1/cpulist"), "2-3,6-7");
        BitSet all = new BitSet();
        all.set(0, 8);
        CpuTopology whole = CpuTopology.find(all, root, 8);
        assertThat(whole.order()).containsExactly(0, 1, 2, 3, 4, 5, 6, 7);
        assertThat(whole.cores()).isEqualTo(4);
        assertThat(whole.nodes()).containsExactly(0, 1);
        assertThat(whole.canPin(8)).isTrue();
        assertThat(whole.canPin(9)).isFalse();
        BitSet second = new BitSet();
        second.set(2, 4);
        second.set(6, 8);
        assertThat(CpuTopology.find(second, root, 8).order()).containsExactly(2, 3, 6, 7);
        assertThat(CpuTopology.find(all, root, 3).order())
                .as("a container's quota")
                .containsExactly(0, 1, 2);
    }

    @Test
    void withoutTopologyFilesEveryThreadIsACore(@TempDir Path nothing) {
        BitSet all = new BitSet();
        all.set(1, 4);
        CpuTopology topology = CpuTopology.find(all, nothing, 8);
        assertThat(topology.order()).containsExactly(1, 2, 3);
        assertThat(topology.cores()).isEqualTo(3);
    }

    @Test
    void anAllowedThreadWithoutAllowedSiblingsIsACore(@TempDir Path root) throws IOException {
        for (int cpu = 0; cpu < 4; cpu++) {
            Path topology = root.resolve("sys/devices/system/cpu/cpu" + cpu + "/topology");
            write(topology.resolve("thread_siblings_list"), cpu % 2 + "," + (cpu % 2 + 2));
        }
        BitSet upper = new BitSet();
        upper.set(2, 4);
        assertThat(CpuTopology.find(upper, root, 8).cores()).isEqualTo(2);
    }

    @Test
    void keepsTheNumbersOfNodes(@TempDir Path root) throws IOException {
        write(root.resolve("sys/devices/system/node/node1/cpulist"), "0-1");
        write(root.resolve("sys/devices/system/node/node8/cpulist"), "2-3");
        write(root.resolve("sys/devices/system/node/node9/cpulist"), "4-7");
        BitSet allowed = new BitSet();
        allowed.set(0, 4);
        assertThat(CpuTopology.find(allowed, root, 8).nodes()).containsExactly(1, 8);
    }

    /** Two containers with quotas on one machine both see all of its cores. */
    @ParameterizedTest
    @CsvSource({"200000 100000, true", "350000 100000, true", "400000 100000, false", "max 100000, false"})
    void threadsAreNotPinnedUnderAQuotaBelowTheAllowedCores(String cpuMax, boolean limited, @TempDir Path root)
            throws IOException {
        write(root.resolve("proc/self/cgroup"), "0::/");
        write(root.resolve("sys/fs/cgroup/cpu.max"), cpuMax);
        BitSet allowed = new BitSet();
        allowed.set(0, 4);
        CpuTopology topology = CpuTopology.find(allowed, root, 4);
        assertThat(topology.limited()).isEqualTo(limited);
        assertThat(topology.canPin(2)).isEqualTo(!limited);
        assertThat(topology.pinObstacle(2)).contains(limited ? "quota" : "hardware threads");
    }

    @Test
    void theSmallestQuotaOfAllAncestorsApplies(@TempDir Path root) throws IOException {
        write(root.resolve("proc/self/cgroup"), "0::/pods/one/main");
        write(root.resolve("sys/fs/cgroup/pods/cpu.max"), "600000 100000");
        write(root.resolve("sys/fs/cgroup/pods/one/cpu.max"), "150000 100000");
        write(root.resolve("sys/fs/cgroup/pods/one/main/cpu.max"), "max 100000");
        assertThat(CpuQuota.find(root)).hasValue(1.5);
    }

    @Test
    void readsQuotasOfControlGroupsVersion1(@TempDir Path root) throws IOException {
        write(root.resolve("proc/self/cgroup"), "7:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n0::/");
        // in a container the mount is the process's own group
        write(root.resolve("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"), "250000");
        write(root.resolve("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us"), "50000");
        assertThat(CpuQuota.find(root)).hasValue(5);
        write(root.resolve("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"), "-1");
        assertThat(CpuQuota.find(root)).isEmpty();
    }

    private static void write(Path file, String text) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, text + "\n");
    }
}
