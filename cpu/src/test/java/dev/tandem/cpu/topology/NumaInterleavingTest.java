package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Which allocations are interleaved over NUMA nodes, and what the log says about it. */
class NumaInterleavingTest {
    private static final long MEGABYTE = 1 << 20;

    private record Call(long address, long bytes, List<Integer> nodes) {}

    private final List<Call> calls = new ArrayList<>();

    private NumaInterleaving on(List<Integer> nodes, int error) {
        return new NumaInterleaving(nodes, (address, bytes, all) -> {
            calls.add(new Call(address, bytes, all));
            return error;
        });
    }

    @Test
    void onOneNodeNothingIsCalledOrReported() {
        NumaInterleaving one = on(List.of(0), 0);
        one.apply(1 << 20, 100 * MEGABYTE);
        assertThat(calls).isEmpty();
        assertThat(one.report()).isEmpty();
    }

    @Test
    void onSeveralNodesWholePagesOfLargeAllocationsAreInterleaved() {
        NumaInterleaving two = on(List.of(0, 2), 0);
        two.apply(5 * MEGABYTE + 16, 3 * MEGABYTE);
        two.apply(9 * MEGABYTE, 4096);
        assertThat(calls)
                .containsExactly(new Call(5 * MEGABYTE + (64 << 10), 3 * MEGABYTE - (64 << 10), List.of(0, 2)));
        assertThat(two.report().orElseThrow())
                .isEqualTo("memory: weights and host KV are interleaved over NUMA nodes 0, 2");
    }

    @Test
    void aRefusalIsReportedWithTheRemedyAndNotRetried() {
        NumaInterleaving refused = on(List.of(0, 1), 1);
        refused.apply(0, MEGABYTE);
        refused.apply(0, MEGABYTE);
        assertThat(calls).hasSize(1);
        assertThat(refused.report().orElseThrow())
                .startsWith("memory: weights and host KV are not interleaved over NUMA nodes 0, 1")
                .contains("mbind failed with error 1", "--cap-add SYS_NICE", "numactl --interleave=all");
    }

    /** Works on a machine with one node, too: the system reports the placement of the range. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void linuxInterleavesTheRange() throws IOException {
        Path maps = Path.of("/proc/self/numa_maps");
        assumeThat(maps).exists();
        int node = CpuTopology.find().nodes().getFirst();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = NativeMemory.allocate(8 * MEGABYTE, "the test", arena);
            long first = (memory.address() + MEGABYTE - 1) / MEGABYTE * MEGABYTE;
            int error = NumaInterleaving.interleave(first, 4 * MEGABYTE, List.of(node));
            assumeThat(error).as("a sandbox may refuse mbind").isNotIn(1, 38);
            assertThat(error).isZero();
            memory.fill((byte) 1);
            assertThat(Files.readAllLines(maps))
                    .anyMatch(line -> line.startsWith(Long.toHexString(first) + " interleave:" + node));
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void largeAllocationsHavePagesOnEveryNode() throws IOException {
        List<Integer> nodes = CpuTopology.find().nodes();
        assumeThat(nodes).hasSizeGreaterThan(1);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment memory = NativeMemory.allocate(64 * MEGABYTE, "the test", arena);
            assumeThat(NumaInterleaving.system().report().orElseThrow()).doesNotContain("not interleaved");
            memory.fill((byte) 1);
            String line = Files.readAllLines(Path.of("/proc/self/numa_maps")).stream()
                    .filter(text -> text.contains("interleave:") && text.contains("dirty="))
                    .findFirst()
                    .orElseThrow();
            nodes.forEach(node -> assertThat(line).contains(" N" + node + "="));
        }
    }
}
