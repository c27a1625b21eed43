package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

/** Binding of threads to cores, as Linux reports it. */
@EnabledOnOs(OS.LINUX)
class ThreadAffinityTest {
    private record Seen(String cores, BitSet allowed) {}

    private static Seen look() throws IOException {
        String status = Files.readString(Path.of("/proc/thread-self/status"));
        String line = status.lines()
                .filter(text -> text.startsWith("Cpus_allowed_list:"))
                .findFirst()
                .orElseThrow();
        return new Seen(line.substring(line.indexOf(':') + 1).strip(), ThreadAffinity.allowed());
    }

    /** Looks from a thread that a thread bound to the cores has started. */
    private static Seen startedBy(List<Integer> cores) throws Exception {
        FutureTask<Seen> child = new FutureTask<>(ThreadAffinityTest::look);
        FutureTask<Boolean> parent = new FutureTask<>(() -> {
            boolean bound = ThreadAffinity.pin(cores);
            Thread.ofPlatform().start(child);
            return bound;
        });
        Thread.ofPlatform().start(parent);
        assertThat(parent.get()).isTrue();
        return child.get();
    }

    @Test
    void aBoundThreadBindsTheThreadsItStartsButNotTheProcess() throws Exception {
        BitSet all = ThreadAffinity.allowed();
        int last = all.length() - 1;
        assertThat(startedBy(List.of(last))).isEqualTo(new Seen("" + last, all));
        assertThat(ThreadAffinity.allowed()).isEqualTo(all);
    }

    @Test
    void aThreadIsBoundToSeveralCores() throws Exception {
        List<Integer> all = ThreadAffinity.allowed().stream().boxed().toList();
        String expected = look().cores();
        assertThat(startedBy(all).cores()).isEqualTo(expected);
    }
}
