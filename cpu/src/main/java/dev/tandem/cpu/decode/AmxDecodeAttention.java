package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.PowerOfTwo;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** {@link PagedDecodeAttention} with AMX tiles, bf16 only: the kernel is C, called once a segment. */
final class AmxDecodeAttention implements PagedDecodeAttention {
    /** Rows of a tile. */
    private static final int MOST_GROUP = 16;
    private static final int TASK_BYTES = 104;
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE, Arena.global(), null);

    private final AmxLibrary library;
    private final BlockFormat format;
    private final int heads;
    private final int keyDims;

    AmxDecodeAttention(AmxLibrary library, BlockFormat format, int heads) {
        this.library = library;
        this.format = format;
        this.heads = heads;
        this.keyDims = 2 * format.keyRows();
    }

    static boolean supports(BlockFormat format, int heads) {
        return format.type() == DataType.BFLOAT16 && heads / format.kvHeads() <= MOST_GROUP;
    }

    @Override
    public String name() {
        return "amx";
    }

    @Override
    public BlockFormat format() {
        return format;
    }

    @Override
    public int heads() {
        return heads;
    }

    /**
     * What one call reads and writes, in the C source's order.
     *
     * @param q padded to whole tiles; unused where the head size is
     * @param blocks [segment] addresses
     */
    private record Working(
            MemorySegment task, MemorySegment q, MemorySegment blocks, MemorySegment max, MemorySegment sum, MemorySegment weighted)
            implements Scratch {}

    @Override
    public Scratch scratch(Arena arena) {
        Working w = new Working(
                arena.allocate(TASK_BYTES, 64),
                arena.allocate((long) heads * keyDims * Short.BYTES, 64),
                arena.allocate((long) SEGMENT_BLOCKS * Long.BYTES, 64),
                arena.allocate((long) heads * Float.BYTES, 64),
                arena.allocate((long) heads * Float.BYTES, 64),
                arena.allocate((long) heads * format.headDim() * Float.BYTES, 64));
        MemorySegment task = w.task();
        task.set(ValueLayout.JAVA_INT, 28, format.kvHeads());
        task.set(ValueLayout.JAVA_INT, 32, heads / format.kvHeads());
        task.set(ValueLayout.JAVA_INT, 36, format.headDim());
        task.set(ValueLayout.JAVA_INT, 40, keyDims);
        task.set(ValueLayout.JAVA_FLOAT, 44, (float) (PowerOfTwo.LOG2_E / Math.sqrt(format.headDim())));
        task.set(ValueLayout.JAVA_LONG, 48, w.max().address());
        task.set(ValueLayout.JAVA_LONG, 56, w.sum().address());
        task.set(ValueLayout.JAVA_LONG, 64, w.weighted().address());
        return w;
    }

    @Override
    public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
        Working w = (Working) scratch;
        compute(task, first, last, next, w, 0);
        MemorySegment.copy(w.max(), ValueLayout.JAVA_FLOAT, 0, partial.max, 0, heads);
        MemorySegment.copy(w.sum(), ValueLayout.JAVA_FLOAT, 0, partial.sum, 0, heads);
        MemorySegment.copy(w.weighted(), ValueLayout.JAVA_FLOAT, 0, partial.weighted, 0, partial.weighted.length);
    }

    /** A row of one segment is finished where it was computed: nothing is copied. */
    @Override
    public void run(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        if (task.blockCount() <= SEGMENT_BLOCKS) {
            compute(task, 0, task.blockCount(), next, (Working) scratch, task.out);
        } else {
            PagedDecodeAttention.super.run(task, next, scratch, partial, sum);
        }
    }

    /** @param out where finished results go; 0 leaves a partial result */
    private void compute(DecodeTask task, int first, int last, long next, Working w, long out) {
        MemorySegment.copy(task.blocks, first, w.blocks(), ValueLayout.JAVA_LONG, 0, last - first);
        MemorySegment t = w.task();
        t.set(ValueLayout.JAVA_LONG, 0, queries(task.q, w));
        t.set(ValueLayout.JAVA_LONG, 8, w.blocks().address());
        t.set(ValueLayout.JAVA_INT, 16, 0);
        t.set(ValueLayout.JAVA_INT, 20, last - first);
        t.set(ValueLayout.JAVA_INT, 24, task.context - first * BlockFormat.TOKENS);
        t.set(ValueLayout.JAVA_LONG, 72, next);
        boolean appends = task.prepareAppend(format, last);
        t.set(ValueLayout.JAVA_LONG, 80, appends ? task.k : 0);
        t.set(ValueLayout.JAVA_LONG, 88, appends ? task.v : 0);
        t.set(ValueLayout.JAVA_LONG, 96, out);
        library.partial(t);
    }

    /** As they are where heads are whole tiles, else each padded with zeros. */
    private long queries(long q, Working w) {
        if (keyDims == format.headDim()) {
            return q;
        }
        long bytes = (long) format.headDim() * Short.BYTES;
        for (int head = 0; head < heads; head++) {
            MemorySegment.copy(MEMORY, q + head * bytes, w.q(), (long) head * keyDims * Short.BYTES, bytes);
        }
        return w.q().address();
    }
}
