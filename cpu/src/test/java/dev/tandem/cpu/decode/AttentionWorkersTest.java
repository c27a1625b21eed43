package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.execute.ExecutorException;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class AttentionWorkersTest {
    private static final BlockFormat FORMAT = new BlockFormat(2, 64, DataType.BFLOAT16);
    private static final int HEADS = 6;

    private static List<PagedDecodeAttention> implementations() {
        return DecodeImplementations.all(FORMAT, HEADS);
    }

    private static void runAll(AttentionWorkers workers, DecodeTask[] tasks) {
        workers.beginStep();
        for (DecodeTask task : tasks) {
            workers.submit(task);
        }
        workers.await();
        workers.endStep();
    }

    @Test
    void resultsDoNotDependOnTheNumberOfThreads() {
        int[] contexts = {1, 70, 2048, 2049, 5000, 64, 300, 4100};
        for (PagedDecodeAttention attention : implementations()) {
            List<float[]> results = new ArrayList<>();
            for (int threads : new int[] {1, 2, 3, 5}) {
                try (Arena arena = Arena.ofConfined();
                        AttentionWorkers workers = new AttentionWorkers(attention, threads, false, 0, 8, 5000)) {
                    HostRows rows = new HostRows(FORMAT, HEADS, contexts, true, 17, arena);
                    runAll(workers, rows.tasks);
                    for (int i = 0; i < contexts.length; i++) {
                        assertThat(rows.error(i)).as("%s, context %d", attention.name(), contexts[i]).isLessThan(1e-4);
                    }
                    results.add(rows.out.toArray(ValueLayout.JAVA_FLOAT));
                }
            }
            assertThat(results).as(attention.name()).allMatch(result -> Arrays.equals(result, results.getFirst()));
        }
    }

    /** {@code -Dtandem.calls=1000000} for the whole of it. */
    @Test
    void manyRandomCallsGiveWhatOneThreadGives() {
        int calls = Integer.getInteger("tandem.calls", 40_000);
        long seed = 23;
        for (PagedDecodeAttention attention : implementations()) {
            try (Arena arena = Arena.ofConfined();
                    AttentionWorkers workers = new AttentionWorkers(attention, 3, false, 0, 64, 200)) {
                SplittableRandom random = new SplittableRandom(seed);
                HostRows rows = new HostRows(FORMAT, HEADS, random.ints(64, 1, 200).toArray(), false, seed, arena);
                runAll(workers, rows.tasks);
                float[] expected = rows.out.toArray(ValueLayout.JAVA_FLOAT);
                for (int done = 0; done < calls; ) {
                    rows.out.fill((byte) 0xFF);
                    int batch = 1 + random.nextInt(64);
                    workers.beginStep();
                    for (int i = 0; i < batch; i++) {
                        workers.submit(rows.tasks[i]);
                    }
                    workers.await();
                    if (random.nextInt(8) == 0) {
                        workers.endStep(); // they park, and are woken by the next step
                    }
                    for (int i = 0; i < batch * HEADS * 64; i += 61) {
                        float actual = rows.out.getAtIndex(ValueLayout.JAVA_FLOAT, i);
                        assertThat(actual).as("seed %d, value %d", seed, i).isEqualTo(expected[i]);
                    }
                    done += batch;
                }
            }
        }
    }

    /** Attention that does something before each task. */
    private static PagedDecodeAttention before(Consumer<DecodeTask> something) {
        PagedDecodeAttention inner = new VectorDecodeAttention(FORMAT, HEADS);
        return new PagedDecodeAttention() {
            @Override
            public String name() {
                return inner.name();
            }

            @Override
            public BlockFormat format() {
                return FORMAT;
            }

            @Override
            public int heads() {
                return HEADS;
            }

            @Override
            public Scratch scratch(Arena arena) {
                return inner.scratch(arena);
            }

            @Override
            public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
                something.accept(task);
                inner.partial(task, first, last, next, scratch, partial);
            }
        };
    }

    /** There may be as many workers as cores. */
    @Test
    void whoWaitsLongLeavesItsCoreToTheWorkers() {
        Thread waiting = Thread.currentThread();
        Set<Thread.State> resting = EnumSet.of(Thread.State.WAITING, Thread.State.TIMED_WAITING);
        PagedDecodeAttention slow = before(task -> {
            while (task.context() == 130 && !resting.contains(waiting.getState())) {
                Thread.onSpinWait();
            }
        });
        try (Arena arena = Arena.ofConfined(); AttentionWorkers workers = new AttentionWorkers(slow, 2, false, 0, 4, 200)) {
            for (int[] contexts : new int[][] {{10, 20, 130}, {130, 10, 20}, {130, 130, 130}}) {
                HostRows rows = new HostRows(FORMAT, HEADS, contexts, false, 3, arena);
                runAll(workers, rows.tasks);
                assertThat(rows.error(2)).isLessThan(1e-5);
            }
        }
    }

    @Test
    void aFailingWorkerFailsTheStepAndTheNextOneRuns() {
        boolean[] failing = {true};
        PagedDecodeAttention broken = before(task -> {
            if (failing[0] && task.context() == 130) {
                throw new IllegalStateException("as the test wants it");
            }
        });
        try (Arena arena = Arena.ofConfined(); AttentionWorkers workers = new AttentionWorkers(broken, 2, false, 0, 4, 200)) {
            HostRows rows = new HostRows(FORMAT, HEADS, new int[] {10, 130, 20}, false, 3, arena);
            assertThatThrownBy(() -> runAll(workers, rows.tasks))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("an attention worker failed")
                    .hasMessageContaining("as the test wants it");
            failing[0] = false;
            runAll(workers, rows.tasks);
            assertThat(rows.error(1)).isLessThan(1e-5);
        }
    }

    @Test
    void theEndOfATaskIsAFlagInMemory() {
        try (Arena arena = Arena.ofConfined();
                AttentionWorkers workers =
                        new AttentionWorkers(new VectorDecodeAttention(FORMAT, HEADS), 1, false, 0, 2, 200)) {
            HostRows rows = new HostRows(FORMAT, HEADS, new int[] {10, 20}, false, 3, arena);
            for (int round = 0; round < 5; round++) {
                runAll(workers, rows.tasks);
                for (int i = 0; i < 2; i++) {
                    long number = 2L * round + i;
                    assertThat(workers.isDone(number)).isTrue();
                    assertThat(workers.isDone(number + 2)).isFalse();
                }
            }
        }
    }

    @Test
    void moreTasksThanFitAreRefused() {
        try (Arena arena = Arena.ofConfined();
                AttentionWorkers workers =
                        new AttentionWorkers(new VectorDecodeAttention(FORMAT, HEADS), 1, false, 0, 2, 200)) {
            HostRows rows = new HostRows(FORMAT, HEADS, new int[] {10, 20, 30}, false, 3, arena);
            workers.submit(rows.tasks[0]); // no step is under way: nobody takes it
            workers.submit(rows.tasks[1]);
            assertThatThrownBy(() -> workers.submit(rows.tasks[2])).hasMessageContaining("more than 2 attention tasks");
            workers.beginStep();
            workers.await();
        }
        assertThatThrownBy(() -> new AttentionWorkers(new VectorDecodeAttention(FORMAT, HEADS), 0, false, 0, 2, 200))
                .hasMessageContaining("--attention-threads 0");
    }

    @Test
    void callsAllocateNothing() {
        for (PagedDecodeAttention attention : implementations()) {
            try (Arena arena = Arena.ofConfined()) {
                HostRows rows = new HostRows(FORMAT, HEADS, new int[] {100, 200}, true, 3, arena);
                PagedDecodeAttention.Scratch scratch = attention.scratch(arena);
                Partial partial = new Partial(HEADS, 64);
                Partial sum = new Partial(HEADS, 64);
                for (int i = 0; i < 20_000; i++) {
                    attention.run(rows.tasks[i % 2], 0, scratch, partial, sum);
                }
                var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < 1000; i++) {
                    attention.run(rows.tasks[i % 2], 0, scratch, partial, sum);
                }
                long bytes = threads.getCurrentThreadAllocatedBytes() - before;
                assertThat(bytes / 1000).as("%s, bytes a call", attention.name()).isLessThan(16);
            }
        }
    }
}
