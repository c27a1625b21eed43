package dev.tandem.cpu.attention;

import dev.tandem.cpu.decode.Partial;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * One worker's buffers for {@link PagedAttention}.
 *
 * <p>Owned by: that worker while a step runs.
 */
public final class AttentionScratch {
    /** [rows, headDim]: scaled queries. */
    final float[] queries;
    /** Two K tiles, or one V tile, widened to fp32. The second K tile holds the tokens of the block after the first. */
    final MemorySegment tiles;

    /** [rows, {@link PagedAttention#SEGMENT_TOKENS}]: scores, then softmax weights. */
    final float[] scores;

    /** The result of a tile's segments so far. */
    final Partial result;
    /** The result of the next segment. */
    final Partial segment;

    /**
     * Buffers for tiles of up to {@code rows} rows.
     *
     * @param arena owns the native part
     */
    public AttentionScratch(int rows, int headDim, Arena arena) {
        queries = new float[rows * headDim];
        scores = new float[rows * PagedAttention.SEGMENT_TOKENS];
        result = PagedAttention.partial(rows, headDim);
        segment = PagedAttention.partial(rows, headDim);
        tiles = arena.allocate(2L * headDim * KvStore.BLOCK_TOKENS * 4 + 512, 64);
    }
}
