package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.RowOps;
import java.util.Arrays;

/**
 * The attention of all heads over some of a row's tokens: for each head the largest score (in powers of two), the sum
 * of weights relative to it, and the weighted sum of V. Partials of one row are merged in the order of its tokens.
 *
 * <p>Owned by: one thread at a time.
 */
public final class Partial {
    /** A score that no sum notices, and that can be subtracted from itself. */
    static final float MIN = -1e30f;

    final int heads;
    final int headDim;
    /** [heads] what weights are estimated from: the largest score, or not far below it */
    final float[] max;
    /** [heads] */
    final float[] sum;
    /** [heads, headDim] */
    final float[] weighted;

    public Partial(int heads, int headDim) {
        this.heads = heads;
        this.headDim = headDim;
        this.max = new float[heads];
        this.sum = new float[heads];
        this.weighted = new float[heads * headDim];
    }

    void clear() {
        Arrays.fill(max, MIN);
        Arrays.fill(sum, 0);
        Arrays.fill(weighted, 0);
    }

    /** Adds the tokens after these. */
    void merge(Partial next) {
        for (int head = 0; head < heads; head++) {
            float top = Math.max(max[head], next.max[head]);
            float mine = scale(max[head], top);
            float other = scale(next.max[head], top);
            sum[head] = sum[head] * mine + next.sum[head] * other;
            for (int i = head * headDim; i < (head + 1) * headDim; i++) {
                weighted[i] = weighted[i] * mine + next.weighted[i] * other;
            }
            max[head] = top;
        }
    }

    private static float scale(float from, float to) {
        return from <= MIN ? 0 : (float) Math.pow(2, from - to);
    }

    /** @param out [heads, headDim] fp32, address */
    void finish(long out) {
        for (int head = 0; head < heads; head++) {
            float inverse = 1 / sum[head];
            int at = head * headDim;
            RowOps.scale(weighted, at, inverse, headDim, out + 4L * at);
        }
    }
}
