package dev.tandem.cpu.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.execute.ExecutorException;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;

class WorkerPoolTest {
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
    void aFailingWorkerFailsTheLoopAndNothingHangs() {
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

    @Test
    void leavesNoThreadBehind() {
        long before = workerThreads();
        new WorkerPool(5, true).close();
        assertThat(workerThreads()).isEqualTo(before);
    }

    private static long workerThreads() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().startsWith("tandem-worker"))
                .count();
    }
}
