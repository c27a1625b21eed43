package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.Unpack;
import java.lang.foreign.ValueLayout;

/**
 * One host token's attention in one layer: the token's K and V are appended to its KV blocks, then its query heads
 * attend over the tokens {@code [visible, context)}, the new one included. All addresses are of native memory that
 * outlives the task.
 *
 * <p>Tasks are reused, and filling one allocates nothing. Owned by: the thread that fills it, until it hands the task
 * to a worker; then that worker, until the task is done.
 */
public final class DecodeTask {
    /** Address of [heads, headDim] of the format's type. */
    long q;
    /** Address of [kvHeads, headDim] of the format's type; 0 if the blocks hold the token's K and V already. */
    long k;
    /** Address of [kvHeads, headDim] of the format's type; 0 if {@link #k} is. */
    long v;
    /** [blocks] addresses of the sequence's blocks in this layer. */
    long[] blocks = new long[0];

    /** The position of the first token attended to. */
    int visible;

    /** Tokens of the sequence, the new one included. */
    int context;
    /** Address of [heads, headDim] fp32: the result. */
    long out;

    /**
     * Fills the task.
     *
     * @param q address of [heads, headDim] of the format's type
     * @param k address of [kvHeads, headDim] of the format's type, to be appended; 0 if the blocks hold it already
     * @param v as {@code k}
     * @param blocks addresses of the blocks that hold {@code context} tokens; the array is kept, not copied
     * @param context tokens of the sequence, the new one included
     * @param visible the position of the first token attended to; above 0 in layers with a sliding window
     * @param out address of [heads, headDim] fp32
     */
    public void set(long q, long k, long v, long[] blocks, int context, int visible, long out) {
        if (visible < 0 || visible >= context) {
            throw new IllegalArgumentException(
                    "the first visible token is " + visible + "; it must lie in [0, " + context + ")");
        }
        this.q = q;
        this.k = k;
        this.v = v;
        this.blocks = blocks;
        this.context = context;
        this.visible = visible;
        this.out = out;
    }

    /** Tokens of the sequence, the new one included. */
    public int context() {
        return context;
    }

    /** Address of the sequence's block at {@code index}. */
    public long block(int index) {
        return blocks[index];
    }

    /** The index of the first block with a token that is attended to; blocks before it are not read. */
    int firstBlock() {
        return visible / BlockFormat.TOKENS;
    }

    int blockCount() {
        return (context + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
    }

    /**
     * Clears the sequence's last block if the new token is the first in it.
     *
     * @param last the index after the last block that the caller computes
     * @return whether the caller must append the new token, to block {@code last - 1}
     */
    boolean prepareAppend(BlockFormat format, int last) {
        boolean appends = k != 0 && last == blockCount();
        if (appends && lastToken() == 0) {
            format.clear(blocks[last - 1]);
        }
        return appends;
    }

    /** Whether the query and the new token's K and V hold finite values only. */
    boolean isFinite(BlockFormat format, int heads) {
        int values = format.kvHeads() * format.headDim();
        return Unpack.isFinite(format.type(), q, heads * format.headDim())
                && (k == 0 || Unpack.isFinite(format.type(), k, values) && Unpack.isFinite(format.type(), v, values));
    }

    /** Sets the whole result to NaN. */
    void setResultToNaN(BlockFormat format, int heads) {
        for (int i = 0; i < heads * format.headDim(); i++) {
            Lanes.MEMORY.set(ValueLayout.JAVA_FLOAT, out + 4L * i, Float.NaN);
        }
    }

    /** The new token's index in the last block. */
    int lastToken() {
        return (context - 1) % BlockFormat.TOKENS;
    }
}
