package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.DecodeKernel;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.OnlineSoftmax;
import dev.tandem.cpu.simd.PowerOfTwo;
import dev.tandem.cpu.simd.Prefetch;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * {@link PagedDecodeAttention} with the Vector API. It computes all heads of a block before the next block, so that it
 * reads each block from its beginning to its end.
 */
public final class VectorDecodeAttention implements PagedDecodeAttention {
    /**
     * With fp16 KV, softmax weights are multiplied by two to this power. {@link DecodeKernel} widens fp16 values too
     * small; with larger weights their products are still normal numbers.
     */
    private static final int HALF_WEIGHT_EXPONENT = 96;

    private static final int APART = Lanes.APART;

    private final BlockFormat format;
    private final int heads;
    private final int group;
    private final DecodeKernel kernel;
    private final boolean half;

    /**
     * An implementation for one shape.
     *
     * @param heads query heads, a multiple of the format's KV heads
     */
    public VectorDecodeAttention(BlockFormat format, int heads) {
        if (heads < 1 || heads % format.kvHeads() != 0) {
            throw new IllegalArgumentException(
                    heads + " query heads do not divide among " + format.kvHeads() + " KV heads");
        }
        this.format = format;
        this.heads = heads;
        this.group = heads / format.kvHeads();
        this.kernel = DecodeKernel.of(format.type());
        this.half = format.type() == DataType.FLOAT16;
    }

    @Override
    public String name() {
        return "vector-" + Lanes.bits();
    }

    @Override
    public BlockFormat format() {
        return format;
    }

    @Override
    public int heads() {
        return heads;
    }

    /** Heads of the next kernel call, of {@code left} heads; three are computed as four, the last with a zero query. */
    private static int headsPerCall(int left) {
        return Math.min(DecodeKernel.MAX_HEADS, left >= 3 ? 4 : left);
    }

    /**
     * One thread's buffers. "Padded" heads include the zero heads of {@link #headsPerCall}. Buffers that are written
     * all the time have {@link Lanes#APART} unused floats on either side, against false sharing.
     */
    private static final class Working implements Scratch {
        /** [KV heads, calls][headDim, heads of the call]: scaled queries. */
        final float[] q;
        /** [heads of a call, 64]: scores, then weights. */
        final float[] scores = apart(DecodeKernel.MAX_HEADS * BlockFormat.TOKENS);
        /** [headDim]: one query, while it is packed. */
        final float[] row;
        /** [padded heads, headDim]: weighted sums of V. */
        final float[] weighted;
        /** [padded heads]: the score to which weights are relative, at most 8 below the largest score so far. */
        final float[] reference;
        /** [padded heads, a vector]: sums of weights, lane by lane. */
        final float[] sums;

        final Prefetch.Ahead ahead = new Prefetch.Ahead();

        Working(int paddedHeads, int headDim) {
            this.q = new float[paddedHeads * headDim];
            this.row = new float[headDim];
            this.weighted = apart(paddedHeads * headDim);
            this.reference = new float[paddedHeads];
            this.sums = apart(paddedHeads * Lanes.COUNT);
        }

        private static float[] apart(int floats) {
            return new float[2 * APART + floats];
        }
    }

    /** Padded query heads per KV head. */
    private int paddedGroup() {
        int padded = 0;
        for (int head = 0; head < group; ) {
            int rows = headsPerCall(group - head);
            head += rows;
            padded += rows;
        }
        return padded;
    }

    @Override
    public Scratch scratch(Arena arena) {
        return new Working(format.kvHeads() * paddedGroup(), format.headDim());
    }

    @Override
    public void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial) {
        Working w = (Working) scratch;
        packQueries(task.q, w);
        Arrays.fill(w.weighted, 0);
        Arrays.fill(w.sums, 0);
        Arrays.fill(w.reference, Partial.MIN);
        boolean appends = task.prepareAppend(format, last);
        for (int i = first; i < last; i++) {
            int visible = Math.max(0, task.visible - i * BlockFormat.TOKENS);
            int tokens = Math.min(BlockFormat.TOKENS, task.context - i * BlockFormat.TOKENS);
            boolean more = i + 1 < last;
            int nextTokens = more
                    ? Math.min(BlockFormat.TOKENS, task.context - (i + 1) * BlockFormat.TOKENS)
                    : BlockFormat.TOKENS;
            block(
                    task.blocks[i],
                    visible,
                    tokens,
                    more ? task.blocks[i + 1] : next,
                    nextTokens,
                    appends && !more ? task : null,
                    w);
        }
        store(w, partial);
    }

    private void packQueries(long q, Working w) {
        int headDim = format.headDim();
        float scale = (float) (PowerOfTwo.LOG2_E / Math.sqrt(headDim)) * (half ? 0x1p112f : 1);
        int to = 0;
        for (int kvHead = 0; kvHead < format.kvHeads(); kvHead++) {
            for (int head = 0; head < group; ) {
                int rows = headsPerCall(group - head);
                // the fourth head of a call for three stays zero
                for (int row = 0; row < Math.min(rows, group - head); row++) {
                    long from = q
                            + (long) (kvHead * group + head + row)
                                    * headDim
                                    * format.type().bytes();
                    RowOps.spread(format.type(), from, headDim, scale, w.row, w.q, to + row, rows);
                }
                to += rows * headDim;
                head += rows;
            }
        }
    }

    /**
     * Computes one block. While a KV head is computed, the tiles of the next one are prefetched.
     *
     * @param visible index of the block's first token that is attended to
     * @param tokens how many tokens the block holds, the appended one included
     * @param next address of the block after this one; 0 if unknown
     * @param nextTokens how many tokens that block holds
     * @param appended the task whose new token is appended to this block; null if none
     */
    private void block(
            long block, int visible, int tokens, long next, int nextTokens, @Nullable DecodeTask appended, Working w) {
        int headDim = format.headDim();
        int keyRows = headDim / format.pack();
        int pieces = pieces(keyRows, tokens);
        int padded = 0;
        for (int kvHead = 0; kvHead < format.kvHeads(); kvHead++) {
            long k = block + kvHead * format.headBytes();
            long v = k + format.keyBytes();
            if (appended != null) {
                format.appendKey(block, kvHead, appended.lastToken(), appended.k);
            }
            boolean last = kvHead + 1 == format.kvHeads();
            startPrefetch(last ? next : k + format.headBytes(), last ? nextTokens : tokens, pieces, w);
            for (int head = 0; head < group; ) {
                int rows = headsPerCall(group - head);
                kernel.scores(rows, k, keyRows, tokens, w.q, padded * headDim, w.scores, APART, w.ahead);
                for (int row = 0; row < rows; row++) {
                    softmax(w, row, padded + row, visible, tokens);
                }
                if (appended != null && head == 0) {
                    format.appendValue(block, kvHead, appended.lastToken(), appended.v);
                }
                kernel.addValues(
                        rows, v, headDim, tokens, w.scores, APART, w.weighted, APART + padded * headDim, w.ahead);
                padded += rows;
                head += rows;
            }
        }
    }

    /** In how many pieces the kernel calls for one KV head prefetch the next head's tiles. */
    private int pieces(int keyRows, int tokens) {
        int pieces = 0;
        for (int head = 0; head < group; ) {
            int rows = headsPerCall(group - head);
            pieces += kernel.pieces(rows, keyRows, format.headDim(), tokens);
            head += rows;
        }
        return pieces;
    }

    /**
     * Lets the kernel calls that follow prefetch a head's K tile and V of {@code tokens} tokens. The whole K tile is
     * fetched also for few tokens: fetching only the cache lines that hold them takes longer than fetching all.
     *
     * @param k address of the head's K tile; 0 to prefetch nothing
     */
    private void startPrefetch(long k, int tokens, int pieces, Working w) {
        w.ahead.setRange(k, k == 0 ? 0 : format.keyBytes() + format.valueBytes() * tokens / BlockFormat.TOKENS);
        w.ahead.divide(pieces);
    }

    private void softmax(Working w, int row, int head, int visible, int tokens) {
        int so = APART + row * BlockFormat.TOKENS;
        float reference = OnlineSoftmax.reference(w.scores, so, visible, tokens, w.reference[head]);
        if (reference > w.reference[head]) {
            rescale(w, head, reference);
        }
        OnlineSoftmax.weights(
                w.scores,
                so,
                visible,
                tokens,
                w.reference[head],
                half ? HALF_WEIGHT_EXPONENT : 0,
                w.sums,
                APART + head * Lanes.COUNT);
    }

    /** Raises a head's reference score and scales down what was summed relative to the old one. */
    private void rescale(Working w, int head, float reference) {
        float scale = w.reference[head] <= Partial.MIN ? 0 : (float) Math.pow(2, w.reference[head] - reference);
        w.reference[head] = reference;
        for (int i = head * format.headDim(); i < (head + 1) * format.headDim(); i++) {
            w.weighted[APART + i] *= scale;
        }
        for (int i = head * Lanes.COUNT; i < (head + 1) * Lanes.COUNT; i++) {
            w.sums[APART + i] *= scale;
        }
    }

    /** Writes the sums to the partial result, without padded heads and the factors of fp16. */
    private void store(Working w, Partial partial) {
        int headDim = format.headDim();
        float weight = half ? 0x1p-96f : 1;
        float value = half ? 0x1p16f : 1;
        int padded = 0;
        for (int kvHead = 0; kvHead < format.kvHeads(); kvHead++) {
            for (int head = 0; head < group; head++) {
                int from = padded + head;
                int to = kvHead * group + head;
                partial.max[to] = w.reference[from];
                float sum = 0;
                for (int i = 0; i < Lanes.COUNT; i++) {
                    sum += w.sums[APART + from * Lanes.COUNT + i] * weight;
                }
                partial.sum[to] = sum;
                for (int i = 0; i < headDim; i++) {
                    partial.weighted[to * headDim + i] = w.weighted[APART + from * headDim + i] * value;
                }
            }
            padded += paddedGroup();
        }
    }
}
