package dev.tandem.cpu.decode;

import java.lang.foreign.Arena;

/**
 * Attention of one query token over paged host KV: {@code softmax(q · K / sqrt(headDim)) · V} by online softmax, fp32
 * sums. A row is cut into segments of a fixed number of blocks whatever the number of threads, so that its result does
 * not depend on who computed which.
 */
public interface PagedDecodeAttention {
    /** Blocks a segment: 2,048 tokens. Rows that are no longer than one are never cut. */
    int SEGMENT_BLOCKS = 32;

    /** As the log and {@code --implementation} name it. */
    String name();

    BlockFormat format();

    /** Query heads. */
    int heads();

    /** Working memory of one thread. */
    Scratch scratch(Arena arena);

    /** Segments of a row of this many tokens. */
    static int segments(int context) {
        int tokens = SEGMENT_BLOCKS * BlockFormat.TOKENS;
        return Math.max(1, (context + tokens - 1) / tokens);
    }

    /**
     * Blocks {@code [first, last)} of the task into the partial result. With the row's last block the new token is
     * appended, each head's K and V when that head's tiles have been brought near: a token is in so many lines of
     * memory that writing it at first takes longer.
     *
     * @param next address of the block that this thread will probably read after them, 0 when nobody knows
     */
    void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial);

    /** A thread's working memory; made by the implementation that uses it. */
    interface Scratch {}

    /**
     * A whole row on the calling thread. Where the query or the new token's K or V holds NaN or infinity, the result is
     * NaN, so that the row is lost at the sampler as on the GPU. K and V of earlier tokens are not looked at again: a
     * row with any that is not finite was lost when they were new.
     *
     * @param next as for {@link #partial}
     */
    default void run(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        compute(task, next, scratch, partial, sum);
        if (!task.isFinite(format(), heads())) {
            task.loseResult(format(), heads());
        }
    }

    /** {@link #run} of finite values; of others the result is anything. */
    default void compute(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        int blocks = task.blockCount();
        if (blocks <= SEGMENT_BLOCKS) {
            partial(task, 0, blocks, next, scratch, partial);
            partial.finish(task.out);
            return;
        }
        sum.clear();
        for (int first = 0; first < blocks; first += SEGMENT_BLOCKS) {
            int last = Math.min(blocks, first + SEGMENT_BLOCKS);
            partial(task, first, last, last < blocks ? task.block(last) : next, scratch, partial);
            sum.merge(partial);
        }
        sum.finish(task.out);
    }
}
