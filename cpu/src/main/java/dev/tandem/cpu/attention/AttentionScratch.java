package dev.tandem.cpu.attention;

import dev.tandem.cpu.simd.Lanes;
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
    /** [rows, padded headDim]: weighted sums of V. */
    final float[] outputs;
    /** Two K tiles, or one V tile, widened to fp32. The second K tile holds the tokens of the block after the first. */
    final MemorySegment tiles;

    /** [rows]: sums of softmax weights. */
    final float[] sums;
    /** [rows, padded context]: scores, then softmax weights. */
    float[] scores = new float[0];

    /**
     * Buffers for tiles of up to {@code rows} rows.
     *
     * @param arena owns the native part
     */
    public AttentionScratch(int rows, int headDim, Arena arena) {
        queries = new float[rows * headDim];
        outputs = new float[rows * Lanes.padded(headDim)];
        sums = new float[rows];
        tiles = arena.allocate(2L * headDim * KvStore.BLOCK_TOKENS * 4 + 512, 64);
    }

    /** Returns room for at least {@code size} scores; its content is undefined. */
    float[] scores(int size) {
        if (scores.length < size) {
            scores = new float[size + size / 2];
        }
        return scores;
    }
}
