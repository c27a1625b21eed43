package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PowerOfTwo;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.ValueLayout;

/** {@link PagedDecodeAttention} with AMX tiles, for bf16 KV; the kernel is written in C and called once per segment. */
final class AmxDecodeAttention implements PagedDecodeAttention {
    /** Rows of an AMX tile: the maximum of query heads per KV head. */
    private static final int MAX_GROUP = 16;
    /** The layout of {@code struct task} in decode_amx.c, which asserts the same offsets. */
    static final StructLayout TASK = MemoryLayout.structLayout(
            ValueLayout.ADDRESS.withName("q"),
            ValueLayout.ADDRESS.withName("blocks"),
            ValueLayout.JAVA_INT.withName("first"),
            ValueLayout.JAVA_INT.withName("last"),
            ValueLayout.JAVA_INT.withName("context"),
            ValueLayout.JAVA_INT.withName("kv_heads"),
            ValueLayout.JAVA_INT.withName("group"),
            ValueLayout.JAVA_INT.withName("head_dim"),
            ValueLayout.JAVA_INT.withName("key_dims"),
            ValueLayout.JAVA_FLOAT.withName("scale"),
            ValueLayout.ADDRESS.withName("max"),
            ValueLayout.ADDRESS.withName("sum"),
            ValueLayout.ADDRESS.withName("weighted"),
            ValueLayout.ADDRESS.withName("next"),
            ValueLayout.ADDRESS.withName("k"),
            ValueLayout.ADDRESS.withName("v"),
            ValueLayout.ADDRESS.withName("out"),
            ValueLayout.JAVA_LONG.withName("visible"));

    private static final long Q = offset("q");
    private static final long BLOCKS = offset("blocks");
    private static final long FIRST = offset("first");
    private static final long LAST = offset("last");
    private static final long CONTEXT = offset("context");
    private static final long KV_HEADS = offset("kv_heads");
    private static final long GROUP = offset("group");
    private static final long HEAD_DIM = offset("head_dim");
    private static final long KEY_DIMS = offset("key_dims");
    private static final long SCALE = offset("scale");
    private static final long MAX = offset("max");
    private static final long SUM = offset("sum");
    private static final long WEIGHTED = offset("weighted");
    private static final long NEXT = offset("next");
    private static final long K = offset("k");
    private static final long V = offset("v");
    private static final long OUT = offset("out");
    private static final long VISIBLE = offset("visible");

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

    private static long offset(String field) {
        return TASK.byteOffset(MemoryLayout.PathElement.groupElement(field));
    }

    /** Whether the kernel can compute this shape. */
    static boolean supports(BlockFormat format, int heads) {
        return format.type() == DataType.BFLOAT16 && heads / format.kvHeads() <= MAX_GROUP;
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
     * The native memory of one thread's calls.
     *
     * @param task the kernel's argument, {@link #TASK}
     * @param q [heads, keyDims] bf16, padded to whole tiles; unused if the head size is a multiple of a tile's
     * @param blocks [{@link #SEGMENT_BLOCKS}] addresses
     * @param max [heads] fp32
     * @param sum [heads] fp32
     * @param weighted [heads, headDim] fp32
     */
    private record Working(
            MemorySegment task,
            MemorySegment q,
            MemorySegment blocks,
            MemorySegment max,
            MemorySegment sum,
            MemorySegment weighted)
            implements Scratch {}

    @Override
    public Scratch scratch(Arena arena) {
        Working w = new Working(
                arena.allocate(TASK.byteSize(), 64),
                arena.allocate((long) heads * keyDims * Short.BYTES, 64),
                arena.allocate((long) SEGMENT_BLOCKS * Long.BYTES, 64),
                arena.allocate((long) heads * Float.BYTES, 64),
                arena.allocate((long) heads * Float.BYTES, 64),
                arena.allocate((long) heads * format.headDim() * Float.BYTES, 64));
        MemorySegment task = w.task();
        task.set(ValueLayout.JAVA_INT, KV_HEADS, format.kvHeads());
        task.set(ValueLayout.JAVA_INT, GROUP, heads / format.kvHeads());
        task.set(ValueLayout.JAVA_INT, HEAD_DIM, format.headDim());
        task.set(ValueLayout.JAVA_INT, KEY_DIMS, keyDims);
        task.set(ValueLayout.JAVA_FLOAT, SCALE, (float) (PowerOfTwo.LOG2_E / Math.sqrt(format.headDim())));
        task.set(ValueLayout.JAVA_LONG, MAX, w.max().address());
        task.set(ValueLayout.JAVA_LONG, SUM, w.sum().address());
        task.set(ValueLayout.JAVA_LONG, WEIGHTED, w.weighted().address());
        return w;
    }

    @Override
    public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
        Working w = (Working) scratch;
        compute(task, first, last, next, w, 0);
        MemorySegment.copy(w.max(), ValueLayout.JAVA_FLOAT, Q, partial.max, 0, heads);
        MemorySegment.copy(w.sum(), ValueLayout.JAVA_FLOAT, Q, partial.sum, 0, heads);
        MemorySegment.copy(w.weighted(), ValueLayout.JAVA_FLOAT, Q, partial.weighted, 0, partial.weighted.length);
    }

    /** As the default, except that the kernel normalises and writes the result itself if there is only one segment. */
    @Override
    public void compute(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        if (task.blockCount() - task.firstBlock() <= SEGMENT_BLOCKS) {
            compute(task, task.firstBlock(), task.blockCount(), next, (Working) scratch, task.out);
        } else {
            PagedDecodeAttention.super.compute(task, next, scratch, partial, sum);
        }
    }

    /**
     * Calls the kernel for the blocks {@code [first, last)}.
     *
     * @param out address of the final result; 0 to leave a partial result in {@code w}
     */
    private void compute(DecodeTask task, int first, int last, long next, Working w, long out) {
        MemorySegment.copy(task.blocks, first, w.blocks(), ValueLayout.JAVA_LONG, Q, last - first);
        MemorySegment t = w.task();
        t.set(ValueLayout.JAVA_LONG, Q, queries(task.q, w));
        t.set(ValueLayout.JAVA_LONG, BLOCKS, w.blocks().address());
        t.set(ValueLayout.JAVA_INT, FIRST, 0);
        t.set(ValueLayout.JAVA_INT, LAST, last - first);
        t.set(ValueLayout.JAVA_INT, CONTEXT, task.context - first * BlockFormat.TOKENS);
        t.set(ValueLayout.JAVA_LONG, VISIBLE, Math.max(0, task.visible - first * BlockFormat.TOKENS));
        t.set(ValueLayout.JAVA_LONG, NEXT, next);
        boolean appends = task.prepareAppend(format, last);
        t.set(ValueLayout.JAVA_LONG, K, appends ? task.k : 0);
        t.set(ValueLayout.JAVA_LONG, V, appends ? task.v : 0);
        t.set(ValueLayout.JAVA_LONG, OUT, out);
        library.partial(t);
    }

    /** Returns the queries' address; copies them first if each has to be padded with zeros to whole tiles. */
    private long queries(long q, Working w) {
        if (keyDims == format.headDim()) {
            return q;
        }
        long bytes = (long) format.headDim() * Short.BYTES;
        for (int head = 0; head < heads; head++) {
            MemorySegment.copy(Lanes.MEMORY, q + head * bytes, w.q(), (long) head * keyDims * Short.BYTES, bytes);
        }
        return w.q().address();
    }
}
