package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Decode attention allocates nothing after its warm-up. It runs in a JVM of its own, with the options of every start of
 * Tandem: what the JIT compiler makes depends on them, and on all types and shapes that the process has computed
 * before.
 */
class DecodeAllocationTest {
    private static final int CALLS = 1000;
    /** Batches of calls within which the compiler, which works in the background, is done. */
    private static final int BATCHES = 300;

    @ParameterizedTest
    @EnumSource(
            value = DataType.class,
            names = {"BFLOAT16", "FLOAT16"})
    void callsAllocateNothing(DataType type) throws IOException, InterruptedException {
        Process java = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "@" + Path.of("../tools/java.options"),
                        "-cp",
                        System.getProperty("java.class.path"),
                        DecodeAllocationTest.class.getName(),
                        type.name())
                .redirectErrorStream(true)
                .start();
        String said = new String(java.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(java.waitFor()).as(said).isZero();
        assertThat(said.lines().filter(line -> line.startsWith("allocated ")))
                .as(said)
                .isNotEmpty()
                .allMatch(line -> line.endsWith(" 0 bytes"));
    }

    /** Prints for each implementation how many bytes a call allocates at last. */
    public static void main(String[] args) {
        BlockFormat format = new BlockFormat(2, 64, DataType.valueOf(args[0]));
        List<PagedDecodeAttention> implementations = DecodeImplementations.all(format, 6);
        DecodeWarmUp.run(implementations, DecodeWarmUp.ROUNDS);
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        for (PagedDecodeAttention attention : implementations) {
            try (Arena arena = Arena.ofConfined()) {
                RandomDecodeTasks tasks = new RandomDecodeTasks(format, 6, new int[] {100, 200}, 0, true, 3, arena);
                PagedDecodeAttention.Scratch scratch = attention.scratch(arena);
                Partial partial = new Partial(6, 64);
                Partial sum = new Partial(6, 64);
                long bytes = Long.MAX_VALUE;
                for (int batch = 0; batch < BATCHES && bytes >= CALLS; batch++) {
                    long before = threads.getCurrentThreadAllocatedBytes();
                    for (int i = 0; i < CALLS; i++) {
                        attention.run(tasks.all[i % 2], 0, scratch, partial, sum);
                    }
                    bytes = threads.getCurrentThreadAllocatedBytes() - before;
                }
                System.out.println("allocated by " + attention.name() + ": " + bytes / CALLS + " bytes");
            }
        }
    }
}
