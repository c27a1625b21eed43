package dev.tandem.cuda.tune;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.cpu.probe.BandwidthProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class AttentionBenchmarkTest {
    private static final BlockFormat FORMAT = new BlockFormat(2, 32, DataType.BFLOAT16);
    private static final int HEADS = 4;

    private static AttentionBenchmark benchmark(BlockFormat format, int batch) {
        return new AttentionBenchmark(format, HEADS, batch, 100, 3, 1, Duration.ZERO, Clock.system());
    }

    /** Attention that calls {@code listener} before each task. */
    private static PagedDecodeAttention before(Consumer<DecodeTask> listener) {
        PagedDecodeAttention inner = DecodeImplementations.all(FORMAT, HEADS).getFirst();
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
                listener.accept(task);
                inner.partial(task, first, last, next, scratch, partial);
            }
        };
    }

    @Test
    void theBenchmarkRunsOnTheAttentionWorkers() {
        Set<String> threads = ConcurrentHashMap.newKeySet();
        try (AttentionBenchmark benchmark = benchmark(FORMAT, 5)) {
            AttentionBenchmark.Result result = benchmark.measure(
                    before(task -> threads.add(Thread.currentThread().getName())),
                    BandwidthProbe.all(FORMAT, HEADS),
                    1);
            assertThat(result.kernel()).isPositive();
            assertThat(result.peakBandwidth()).isPositive();
            assertThat(result.micros()).isPositive();
        }
        assertThat(threads).containsExactly("tandem-attention-0");
    }

    @Test
    void allKvIsRandom() {
        AtomicLong zeros = new AtomicLong();
        try (AttentionBenchmark benchmark = benchmark(FORMAT, 1)) {
            benchmark.measure(before(task -> zeros.set(zeros(task.block(0)))), List.of(), 1);
        }
        assertThat(zeros.get())
                .as("zeros among %d values", FORMAT.blockBytes() / Short.BYTES)
                .isLessThan(FORMAT.blockBytes() / Short.BYTES / 100);
    }

    private static long zeros(long block) {
        short[] values =
                MemorySegment.ofAddress(block).reinterpret(FORMAT.blockBytes()).toArray(ValueLayout.JAVA_SHORT);
        long zeros = 0;
        for (short value : values) {
            zeros += value == 0 ? 1 : 0;
        }
        return zeros;
    }

    @Test
    void aFailureOfAttentionEndsTheMeasurement() {
        try (AttentionBenchmark benchmark = benchmark(FORMAT, 2)) {
            assertThatThrownBy(() -> benchmark.measure(
                            before(task -> {
                                throw new IllegalStateException("broken");
                            }),
                            List.of(),
                            1))
                    .isInstanceOf(ExecutorException.class)
                    .hasMessageContaining("broken");
        }
    }

    @Test
    void unsupportedTypesAndBatchSizesAreRejected() {
        assertThatThrownBy(() -> benchmark(new BlockFormat(2, 32, DataType.FLOAT32), 2))
                .hasMessageContaining("--dtype float32");
        assertThatThrownBy(() -> benchmark(FORMAT, AttentionBenchmark.MAX_TOKENS + 1))
                .hasMessageContaining("--batch 1025");
    }
}
