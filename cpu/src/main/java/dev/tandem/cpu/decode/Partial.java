package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.RowOps;
import java.util.Arrays;

/**
 * A partial result of split-KV attention: all heads of one token over some of its context. For each head it holds the
 * reference score (an exponent of two), the sum of weights relative to it, and the weighted sum of V. Partial results
 * of one token are merged in the order of its context, so that the result is deterministic. Where a tile has several
 * tokens, each head of each token counts as a head.
 *
 * <p>Owned by: one thread at a time.
 */
public final class Partial {
    /** Stands for minus infinity, but MIN - MIN is 0 and not NaN. */
    static final float MIN = -1e30f;

    final int heads;
    final int headDim;
    /** [heads] the score to which weights are relative: the largest one, or one not far below it. */
    public final float[] max;
    /** [heads] sums of weights. */
    public final float[] sum;
    /** [heads, headDim] weighted sums of V. */
    public final float[] weighted;

    /** Room for a partial result; {@link PagedDecodeAttention#partial} fills it. */
    public Partial(int heads, int headDim) {
        this.heads = heads;
        this.headDim = headDim;
        this.max = new float[heads];
        this.sum = new float[heads];
        this.weighted = new float[heads * headDim];
    }

    /** Makes it the result of no tokens. */
    public void clear() {
        Arrays.fill(max, MIN);
        Arrays.fill(sum, 0);
        Arrays.fill(weighted, 0);
    }

    /** Adds the partial result of the tokens that follow. */
    public void merge(Partial next) {
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

    /**
     * Writes the final result: weighted sums divided by sums of weights.
     *
     * @param out address of [heads, headDim] fp32
     */
    void finish(long out) {
        for (int head = 0; head < heads; head++) {
            float inverse = 1 / sum[head];
            int at = head * headDim;
            RowOps.scale(weighted, at, inverse, headDim, out + 4L * at);
        }
    }
}
