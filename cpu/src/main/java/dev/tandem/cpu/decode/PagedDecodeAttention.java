package dev.tandem.cpu.decode;

import java.lang.foreign.Arena;

/**
 * Decode attention of one host token over its paged host KV: {@code softmax(q · K / sqrt(headDim)) · V}, by online
 * softmax with fp32 sums.
 *
 * <p>A long sequence is cut into segments of {@link #SEGMENT_BLOCKS} blocks, however many threads there are. The result
 * therefore does not depend on which thread computed which segment. With a sliding window the first segment begins at
 * the first block that has a visible token; tokens of that block before it have weight 0.
 */
public interface PagedDecodeAttention {
    /** Blocks per segment, which is 2,048 tokens; the last segment of a sequence may have fewer. */
    int SEGMENT_BLOCKS = 32;

    /** The implementation's name in the log and for {@code --implementation}. */
    String name();

    /** The layout of the KV blocks. */
    BlockFormat format();

    /** Query heads. */
    int heads();

    /** Allocates the working memory that one thread passes to {@link #partial} and {@link #run}. */
    Scratch scratch(Arena arena);

    /** The number of segments of a sequence of {@code context} tokens. */
    static int segments(int context) {
        int tokens = SEGMENT_BLOCKS * BlockFormat.TOKENS;
        return Math.max(1, (context + tokens - 1) / tokens);
    }

    /**
     * Computes the attention over the blocks {@code [first, last)} of the task into the partial result. The call that
     * computes the sequence's last block also appends the new token.
     *
     * <p>An implementation appends each head's K and V when it computes that head, because the head's tiles are in the
     * cache by then. One token's K and V lie in many cache lines, so appending them first takes longer.
     *
     * @param next address of the block that this thread will probably read next; 0 if unknown
     */
    void partial(DecodeTask task, int first, int last, long next, Scratch scratch, Partial partial);

    /** One thread's working memory; only the implementation that allocated it can use it. */
    interface Scratch {}

    /**
     * Computes a whole task on the calling thread. If the query or the new token's K or V holds NaN or infinity, the
     * result is NaN, so that the sampler rejects the sequence, as on the GPU. K and V of earlier tokens are not checked
     * again: had any of them not been finite, the sequence would have failed when they were new.
     *
     * @param next as for {@link #partial}
     */
    default void run(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        compute(task, next, scratch, partial, sum);
        if (!task.isFinite(format(), heads())) {
            task.setResultToNaN(format(), heads());
        }
    }

    /** As {@link #run}, for finite values; the result for others is undefined. */
    default void compute(DecodeTask task, long next, Scratch scratch, Partial partial, Partial sum) {
        int begin = task.firstBlock();
        int blocks = task.blockCount();
        if (blocks - begin <= SEGMENT_BLOCKS) {
            partial(task, begin, blocks, next, scratch, partial);
            partial.finish(task.out);
            return;
        }
        sum.clear();
        for (int first = begin; first < blocks; first += SEGMENT_BLOCKS) {
            int last = Math.min(blocks, first + SEGMENT_BLOCKS);
            partial(task, first, last, last < blocks ? task.block(last) : next, scratch, partial);
            sum.merge(partial);
        }
        sum.finish(task.out);
    }
}
