package dev.tandem.cpu.attention;

import dev.tandem.cpu.simd.Lanes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * One worker's buffers for attention.
 *
 * <p>Owned by: that worker while a step runs.
 */
public final class AttentionScratch {
    final float[] queries;
    final float[] outputs;
    /** A K or V tile widened to fp32, and for K its right neighbour. */
    final MemorySegment tiles;

    final float[] sums;
    float[] scores = new float[0];

    public AttentionScratch(int rows, int headDim, Arena arena) {
        queries = new float[rows * headDim];
        outputs = new float[rows * Lanes.padded(headDim)];
        sums = new float[rows];
        tiles = arena.allocate(2L * headDim * KvStore.BLOCK_TOKENS * 4 + 512, 64);
    }

    /** At least {@code size} scores. */
    float[] scores(int size) {
        if (scores.length < size) {
            scores = new float[size + size / 2];
        }
        return scores;
    }
}
