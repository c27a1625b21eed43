package dev.tandem.bench;

import dev.tandem.cpu.decode.BlockFormat;
import dev.tandem.cpu.decode.DecodeImplementations;
import dev.tandem.cpu.decode.DecodeTask;
import dev.tandem.cpu.decode.PagedDecodeAttention;
import dev.tandem.cpu.decode.Partial;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * One row's decode attention in one layer on one thread, without workers. One row stays in the cache: what the
 * arithmetic takes. Many rows in turn come from memory.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 3, time = 2)
public class DecodeAttentionBenchmark {
    private static final int HEAD_DIM = 128;
    private static final int HEADS = 32;

    /** By position in what this machine has: 0 is what it would choose. */
    @Param({"0", "1"})
    int implementation;

    @Param({"8", "32"})
    int kvHeads;

    @Param({"16", "1000"})
    int context;

    @Param({"1", "256"})
    int rows;

    private Arena arena;
    private PagedDecodeAttention attention;
    private PagedDecodeAttention.Scratch scratch;
    private Partial partial;
    private Partial sum;
    private DecodeTask[] tasks;
    private int next;

    @Setup
    public void fill() {
        arena = Arena.ofConfined();
        BlockFormat format = new BlockFormat(kvHeads, HEAD_DIM, DataType.BFLOAT16);
        var all = DecodeImplementations.all(format, HEADS);
        attention = all.get(Math.min(implementation, all.size() - 1));
        System.out.println(attention.name());
        scratch = attention.scratch(arena);
        partial = new Partial(HEADS, HEAD_DIM);
        sum = new Partial(HEADS, HEAD_DIM);
        SplittableRandom random = new SplittableRandom(1);
        int blocks = (context + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
        tasks = new DecodeTask[rows];
        MemorySegment first =
                random(format, (int) (format.blockBytes() / format.type().bytes()), random);
        for (int row = 0; row < rows; row++) {
            long[] addresses = new long[blocks];
            for (int i = 0; i < blocks; i++) {
                MemorySegment block = arena.allocate(format.blockBytes(), 64);
                MemorySegment.copy(first, 0, block, 0, format.blockBytes());
                addresses[i] = block.address();
            }
            tasks[row] = new DecodeTask();
            tasks[row].set(
                    random(format, HEADS * HEAD_DIM, random).address(),
                    0,
                    0,
                    addresses,
                    context,
                    0,
                    arena.allocate((long) HEADS * HEAD_DIM * Float.BYTES, 64).address());
        }
    }

    private MemorySegment random(BlockFormat format, int count, SplittableRandom random) {
        MemorySegment values = arena.allocate((long) count * format.type().bytes(), 64);
        for (int i = 0; i < count; i++) {
            format.store(values.address() + (long) i * format.type().bytes(), (float) (2 * random.nextDouble() - 1));
        }
        return values;
    }

    @Benchmark
    public void row() {
        attention.run(tasks[next], 0, scratch, partial, sum);
        next = (next + 1) % rows;
    }

    @TearDown
    public void free() {
        arena.close();
    }
}
