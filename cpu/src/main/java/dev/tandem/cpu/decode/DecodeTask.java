package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Unpack;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * One decode row's attention in one layer: its token's K and V are appended, then its query heads attend over
 * {@code context} tokens, the new one included. All addresses are of native memory that lives until the task is done.
 *
 * <p>Owned by: whoever fills it, until it is submitted; then by the worker that runs it. Reused: filling it allocates
 * nothing.
 */
public final class DecodeTask {
    private static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE, Arena.global(), null);

    /** [heads, headDim] of the format's type. */
    long q;
    /** [kvHeads, headDim] of the format's type; 0 when the token's K and V are in the block already. */
    long k;

    long v;
    /** [blocks] addresses of the row's blocks in this layer. */
    long[] blocks = new long[0];

    int context;
    /** [heads, headDim] fp32. */
    long out;

    /** @param blocks kept, not copied: covers {@code context} tokens */
    public void set(long q, long k, long v, long[] blocks, int context, long out) {
        this.q = q;
        this.k = k;
        this.v = v;
        this.blocks = blocks;
        this.context = context;
        this.out = out;
    }

    /** Tokens attended to. */
    public int context() {
        return context;
    }

    /** Address of the row's block at {@code index}. */
    public long block(int index) {
        return blocks[index];
    }

    int blockCount() {
        return (context + BlockFormat.TOKENS - 1) / BlockFormat.TOKENS;
    }

    /**
     * Clears the row's last block where its first token is about to be appended.
     *
     * @return whether who computes the blocks before {@code last} is to append the new token, to the last of them
     */
    boolean prepareAppend(BlockFormat format, int last) {
        boolean appends = k != 0 && last == blockCount();
        if (appends && lastToken() == 0) {
            format.clear(blocks[last - 1]);
        }
        return appends;
    }

    /** Whether the query and the new token's K and V are. */
    boolean isFinite(BlockFormat format, int heads) {
        int values = format.kvHeads() * format.headDim();
        return Unpack.isFinite(format.type(), q, heads * format.headDim())
                && (k == 0 || Unpack.isFinite(format.type(), k, values) && Unpack.isFinite(format.type(), v, values));
    }

    /** Makes the result NaN. */
    void loseResult(BlockFormat format, int heads) {
        for (int i = 0; i < heads * format.headDim(); i++) {
            MEMORY.set(ValueLayout.JAVA_FLOAT, out + 4L * i, Float.NaN);
        }
    }

    /** Where the new token is in the last block. */
    int lastToken() {
        return (context - 1) % BlockFormat.TOKENS;
    }
}
