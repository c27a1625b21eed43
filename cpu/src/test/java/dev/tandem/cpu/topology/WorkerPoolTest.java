package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.executor.ExecutorException;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Loops of the worker pool: each index once, failures, parking under a CPU quota, no threads left. */
class WorkerPoolTest {
    private static final int LOOPS = 20;

    @Test
    void runsEveryIndexOnceOverManyLoops() {
        try (WorkerPool pool = new WorkerPool(4, false)) {
            pool.beginStep();
            for (int loop = 0; loop < 20_000; loop++) {
                int count = loop % 13;
                AtomicIntegerArray runs = new AtomicIntegerArray(13);
                pool.run(count, (index, worker) -> runs.incrementAndGet(index));
                for (int i = 0; i < 13; i++) {
                    assertThat(runs.get(i)).as("loop %d index %d", loop, i).isEqualTo(i < count ? 1 : 0);
                }
            }
            pool.endStep();
        }
    }

    @Test
    void aFailedIndexFailsItsLoopAndTheNextLoopRuns() {
        try (WorkerPool pool = new WorkerPool(3, false)) {
            pool.beginStep();
            assertThatThrownBy(() -> pool.run(50, (index, worker) -> {
                        if (index == 31) {
                            throw new IllegalStateException("index 31");
                        }
                    }))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("index 31");
            int[] sum = new int[1];
            pool.run(1, (index, worker) -> sum[0]++);
            assertThat(sum[0]).isEqualTo(1);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void afterAFailureAllOtherIndicesRunWithOneThreadOrTwo(int threads) {
        try (WorkerPool pool = new WorkerPool(threads, false)) {
            pool.beginStep();
            AtomicInteger runs = new AtomicInteger();
            assertThatThrownBy(() -> pool.run(9, (index, worker) -> {
                        runs.incrementAndGet();
                        if (index == 3) {
                            throw new IllegalStateException("index 3");
                        }
                    }))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("a worker failed")
                    .hasMessageContaining("index 3")
                    .hasCauseInstanceOf(IllegalStateException.class);
            assertThat(runs).hasValue(9);
        }
    }

    @Test
    void lateWorkersDoNotJoinALoopForFewerWorkers() {
        try (WorkerPool pool = new WorkerPool(4, false)) {
            pool.beginStep();
            AtomicInteger intruders = new AtomicInteger();
            for (int loop = 0; loop < 30_000; loop++) {
                pool.run(7, (index, worker) -> {});
                pool.run(7, 2, (index, worker) -> intruders.addAndGet(worker < 2 ? 0 : 1));
            }
            assertThat(intruders).hasValue(0);
        }
    }

    private static WorkerPool limited(int size) {
        return new WorkerPool(size, true, new CpuTopology(List.of(0, 1), 2, List.of(0), true));
    }

    @Test
    void underACpuQuotaEveryIndexIsRunOnceOverManyLoops() {
        try (WorkerPool pool = limited(3)) {
            pool.beginStep();
            AtomicInteger runs = new AtomicInteger();
            for (int loop = 0; loop < 20_000; loop++) {
                pool.run(5, (index, worker) -> runs.incrementAndGet());
            }
            assertThat(runs).hasValue(100_000);
        }
    }

    @Test
    @Timeout(60)
    void underACpuQuotaWorkersParkBetweenLoops() {
        try (WorkerPool pool = limited(3)) {
            for (int step = 0; step < 5; step++) {
                pool.beginStep();
                pool.run(50, (index, worker) -> {});
                spinUntil(() -> workers().allMatch(thread -> thread.getState() == Thread.State.WAITING));
            }
        }
    }

    @Test
    @Timeout(60)
    void underACpuQuotaTheCallerParksUntilTheLastIndexIsDone() {
        Thread caller = Thread.currentThread();
        try (WorkerPool pool = limited(2)) {
            pool.beginStep();
            AtomicInteger parked = new AtomicInteger();
            for (int loop = 0; loop < LOOPS; loop++) {
                AtomicBoolean shared = new AtomicBoolean();
                pool.run(2, (index, worker) -> {
                    if (worker == 0) {
                        spinUntil(shared::get);
                    } else {
                        shared.set(true);
                        spinUntil(() -> caller.getState() == Thread.State.WAITING || caller.isInterrupted());
                        parked.addAndGet(caller.isInterrupted() ? 0 : 1);
                    }
                });
            }
            assertThat(parked).hasValue(LOOPS);
        }
    }

    @Test
    void leavesNoThreadBehind() {
        long before = workerThreads();
        new WorkerPool(5, true).close();
        assertThat(workerThreads()).isEqualTo(before);
    }

    private static long workerThreads() {
        return workers().count();
    }

    private static Stream<Thread> workers() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("tandem-worker"));
    }

    /** Spins until the condition holds, or the test's timeout interrupts the thread. */
    private static void spinUntil(BooleanSupplier condition) {
        while (!condition.getAsBoolean()) {
            if (Thread.currentThread().isInterrupted()) {
                throw new AssertionError("interrupted by the timeout while waiting for a condition");
            }
            Thread.onSpinWait();
        }
    }
}
