package dev.tandem.cpu.attention;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PowerOfTwo;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.cpu.simd.TileKernel;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.model.config.DataType;
import java.util.Arrays;

/**
 * Causal attention of consecutive query tokens over one sequence's paged KV, for prefill and decode alike. Each (token,
 * head) is computed by itself in one fixed order (scores by ascending dimension, values by ascending token), so neither
 * chunking nor batching changes its bits.
 */
public final class PagedAttention {
    /** Rows (query tokens times heads of a group) that share each load of K and V. */
    public static final int TILE_ROWS = 8;

    private PagedAttention() {}

    /** Query tokens a tile may have for a group of {@code group} heads. */
    public static int tileTokens(int group) {
        return Math.max(1, TILE_ROWS / group);
    }

    /** Rows a tile has at most. */
    public static int maxRows(int group) {
        return tileTokens(group) * group;
    }

    /**
     * One tile of one KV head.
     *
     * @param store holds K and V of positions {@code [0, position + tokens)} in {@code blocks}
     * @param position of the tile's first query token
     * @param group query heads per KV head
     * @param q first query token's first head of the group at {@code qo}; tokens {@code qs} apart
     * @param out likewise, {@code oo} and {@code os}
     */
    public static void tile(
            KvStore store,
            int layer,
            int kvHead,
            int[] blocks,
            int position,
            int tokens,
            int group,
            float[] q,
            int qo,
            int qs,
            float[] out,
            int oo,
            int os,
            AttentionScratch scratch) {
        int headDim = store.headDim();
        int rows = tokens * group;
        int context = position + tokens;
        int padded = Lanes.padded(Math.ceilDiv(context, KvStore.BLOCK_TOKENS) * KvStore.BLOCK_TOKENS);
        float[] scores = scratch.scores(rows * padded);
        copyQueries(q, qo, qs, tokens, group, headDim, scratch.queries);
        Arrays.fill(scores, 0, rows * padded, 0);
        score(store, layer, kvHead, blocks, context, rows, padded, scratch);
        int width = Lanes.padded(headDim);
        Arrays.fill(scratch.outputs, 0, rows * width, 0);
        float[] sums = scratch.sums;
        for (int row = 0; row < rows; row++) {
            sums[row] = RowOps.softmax(scores, row * padded, position + row / group + 1, padded);
        }
        weigh(store, layer, kvHead, blocks, context, rows, padded, scratch);
        for (int row = 0; row < rows; row++) {
            int to = oo + row / group * os + row % group * headDim;
            float inverse = 1 / sums[row];
            for (int d = 0; d < headDim; d++) {
                out[to + d] = scratch.outputs[row * width + d] * inverse;
            }
        }
    }

    /** Queries scaled by log2(e) / sqrt(headDim), for powers of two; one row per (token, head). */
    private static void copyQueries(float[] q, int qo, int qs, int tokens, int group, int headDim, float[] to) {
        float scale = (float) (PowerOfTwo.LOG2_E / Math.sqrt(headDim));
        for (int token = 0; token < tokens; token++) {
            for (int i = 0; i < group * headDim; i++) {
                to[token * group * headDim + i] = q[qo + token * qs + i] * scale;
            }
        }
    }

    /** Scores of all rows with all tokens, two vectors of tokens at a time. */
    private static void score(
            KvStore store,
            int layer,
            int kvHead,
            int[] blocks,
            int context,
            int rows,
            int padded,
            AttentionScratch scratch) {
        int headDim = store.headDim();
        int stride = KvStore.BLOCK_TOKENS * 4;
        for (int token = 0; token < context; token += Lanes.PANEL) {
            long low = keyVector(store, layer, kvHead, blocks, token, 0, scratch);
            int next = token + Lanes.COUNT;
            long high = next < context ? keyVector(store, layer, kvHead, blocks, next, 1, scratch) : low;
            TileKernel.multiply(
                    rows, scratch.queries, 0, headDim, low, high, stride, headDim, scratch.scores, token, padded);
        }
    }

    /** Address of dimension 0 of the vector of tokens that begins at {@code token}, fp32. */
    private static long keyVector(
            KvStore store, int layer, int kvHead, int[] blocks, int token, int side, AttentionScratch scratch) {
        long tile = store.keys(layer, blocks[token / KvStore.BLOCK_TOKENS], kvHead);
        int slot = token % KvStore.BLOCK_TOKENS;
        if (store.type() == DataType.FLOAT32) {
            return tile + 4L * slot;
        }
        int elements = store.headDim() * KvStore.BLOCK_TOKENS;
        long wide = scratch.tiles.address() + (long) side * elements * 4;
        if (slot == 0 || side == 0) {
            Unpack.toFloats(store.type(), tile, elements, wide);
        } else {
            // the second vector lies in the tile that the first one unpacked
            wide = scratch.tiles.address();
        }
        return wide + 4L * slot;
    }

    /** Outputs += powers · V, block by block. */
    private static void weigh(
            KvStore store,
            int layer,
            int kvHead,
            int[] blocks,
            int context,
            int rows,
            int padded,
            AttentionScratch scratch) {
        int headDim = store.headDim();
        int width = Lanes.padded(headDim);
        for (int token = 0; token < context; token += KvStore.BLOCK_TOKENS) {
            long tile = store.values(layer, blocks[token / KvStore.BLOCK_TOKENS], kvHead);
            if (store.type() != DataType.FLOAT32) {
                Unpack.toFloats(store.type(), tile, headDim * KvStore.BLOCK_TOKENS, scratch.tiles.address());
                tile = scratch.tiles.address();
            }
            int depth = Math.min(KvStore.BLOCK_TOKENS, context - token);
            for (int d = 0; d < headDim; d += Lanes.PANEL) {
                long low = tile + 4L * d;
                long high = d + Lanes.COUNT < headDim ? low + 4L * Lanes.COUNT : low;
                TileKernel.multiply(
                        rows, scratch.scores, token, padded, low, high, 4L * headDim, depth, scratch.outputs, d, width);
            }
        }
    }
}
