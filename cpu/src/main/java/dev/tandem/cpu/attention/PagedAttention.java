package dev.tandem.cpu.attention;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.PowerOfTwo;
import dev.tandem.cpu.simd.RowOps;
import dev.tandem.cpu.simd.TileKernel;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.engine.kv.KvView;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.LayerSpec;
import dev.tandem.model.config.SlidingWindow;
import java.util.Arrays;

/**
 * Causal attention of consecutive query tokens over one sequence's paged KV, for prefill and decode. Each (token, head)
 * is computed on its own in a fixed order: scores by ascending dimension, values by ascending token. Chunking and
 * batching therefore never change a bit of the result.
 */
public final class PagedAttention {
    /** Rows of a tile, a row being one (query token, head of the group); they share each load of K and V. */
    public static final int TILE_ROWS = 8;

    private PagedAttention() {}

    /** The maximum of query tokens per tile, for {@code group} query heads per KV head. */
    public static int tileTokens(int group) {
        return Math.max(1, TILE_ROWS / group);
    }

    /** The maximum of rows per tile; more than {@link #TILE_ROWS} only if a single token has more heads. */
    public static int maxRows(int group) {
        return tileTokens(group) * group;
    }

    /**
     * What the tiles of a layer compute.
     *
     * @param group query heads per KV head
     * @param window how many tokens a token attends to at most, itself included; 0 for all
     * @param scale factor of the scores
     */
    public record Rule(int group, int window, double scale) {
        public static Rule of(LayerSpec.Attention attention) {
            return new Rule(attention.heads() / attention.kvHeads(), attention.window(), attention.scoreScale());
        }
    }

    /**
     * Computes one tile of one KV head: {@code out = softmax(q · K · scale) · V}, in fp32.
     *
     * <p>With a window, reading starts at the block that holds the first visible token of the tile's first query. A
     * token that a query does not see has weight 0. Blocks begin at multiples of {@link RowOps#PARTIAL_SUMS}, so each
     * sum has the order of a sum over all tokens, whichever queries share the tile.
     *
     * @param store holds in {@code blocks} K and V of the positions up to {@code position + tokens} that are attended
     *     to
     * @param position the position of the tile's first query token
     * @param q [tokens, group, headDim] from {@code qo}, tokens {@code qs} apart
     * @param out [tokens, group, headDim] from {@code oo}, tokens {@code os} apart; overwritten
     */
    public static void tile(
            KvStore store,
            int layer,
            int kvHead,
            KvView blocks,
            int position,
            int tokens,
            Rule rule,
            float[] q,
            int qo,
            int qs,
            float[] out,
            int oo,
            int os,
            AttentionScratch scratch) {
        int headDim = store.headDim();
        int group = rule.group();
        int rows = tokens * group;
        int firstBlock = SlidingWindow.first(position, rule.window()) / KvStore.BLOCK_TOKENS;
        int first = firstBlock * KvStore.BLOCK_TOKENS;
        Context context = new Context(store, layer, kvHead, blocks, firstBlock, position + tokens - first);
        int padded = Lanes.padded(Math.ceilDiv(context.tokens, KvStore.BLOCK_TOKENS) * KvStore.BLOCK_TOKENS);
        float[] scores = scratch.scores(rows * padded);
        copyQueries(q, qo, qs, tokens, group * headDim, rule.scale(), scratch.queries);
        Arrays.fill(scores, 0, rows * padded, 0);
        score(context, rows, padded, scratch);
        int width = Lanes.padded(headDim);
        Arrays.fill(scratch.outputs, 0, rows * width, 0);
        float[] sums = scratch.sums;
        for (int row = 0; row < rows; row++) {
            int query = position + row / group;
            int visible = SlidingWindow.first(query, rule.window()) - first;
            sums[row] = RowOps.softmax(scores, row * padded, visible, query + 1 - first, padded);
        }
        addValues(context, rows, padded, scratch);
        for (int row = 0; row < rows; row++) {
            int to = oo + row / group * os + row % group * headDim;
            float inverse = 1 / sums[row];
            for (int d = 0; d < headDim; d++) {
                out[to + d] = scratch.outputs[row * width + d] * inverse;
            }
        }
    }

    /**
     * The K and V that a tile reads; tokens are counted from the first one of the first block.
     *
     * @param firstBlock index of the first block that is read
     */
    private record Context(KvStore store, int layer, int kvHead, KvView blocks, int firstBlock, int tokens) {
        int block(int token) {
            return blocks.block(firstBlock + token / KvStore.BLOCK_TOKENS);
        }

        long keys(int token) {
            return store.keys(layer, block(token), kvHead);
        }

        long values(int token) {
            return store.values(layer, block(token), kvHead);
        }
    }

    /** Copies the queries, one row per (token, head), times scale and log2(e): softmax uses powers of two. */
    private static void copyQueries(float[] q, int qo, int qs, int tokens, int width, double scale, float[] to) {
        float factor = (float) (PowerOfTwo.LOG2_E * scale);
        for (int token = 0; token < tokens; token++) {
            for (int i = 0; i < width; i++) {
                to[token * width + i] = q[qo + token * qs + i] * factor;
            }
        }
    }

    /** Computes the scores of all rows with all tokens, two vectors of tokens at a time. */
    private static void score(Context context, int rows, int padded, AttentionScratch scratch) {
        int headDim = context.store.headDim();
        int stride = KvStore.BLOCK_TOKENS * 4;
        for (int token = 0; token < context.tokens; token += Lanes.PANEL) {
            long low = keyVector(context, token, 0, scratch);
            int next = token + Lanes.COUNT;
            long high = next < context.tokens ? keyVector(context, next, 1, scratch) : low;
            TileKernel.multiply(
                    rows, scratch.queries, 0, headDim, low, high, stride, headDim, scratch.scores, token, padded);
        }
    }

    /**
     * Returns the address of dimension 0 of the vector of tokens that begins at {@code token}, in fp32; widens 16-bit
     * tiles into scratch memory.
     *
     * @param side 0 for the first vector of a pair, 1 for the second
     */
    private static long keyVector(Context context, int token, int side, AttentionScratch scratch) {
        KvStore store = context.store;
        long tile = context.keys(token);
        int slot = token % KvStore.BLOCK_TOKENS;
        if (store.type() == DataType.FLOAT32) {
            return tile + 4L * slot;
        }
        int elements = store.headDim() * KvStore.BLOCK_TOKENS;
        long wide = scratch.tiles.address() + (long) side * elements * 4;
        if (slot == 0 || side == 0) {
            Unpack.toFloats(store.type(), tile, elements, wide);
        } else {
            // the call for the first vector has widened this tile already
            wide = scratch.tiles.address();
        }
        return wide + 4L * slot;
    }

    /** Adds softmax weights · V to the outputs, block by block. */
    private static void addValues(Context context, int rows, int padded, AttentionScratch scratch) {
        KvStore store = context.store;
        int headDim = store.headDim();
        int width = Lanes.padded(headDim);
        for (int token = 0; token < context.tokens; token += KvStore.BLOCK_TOKENS) {
            long tile = context.values(token);
            if (store.type() != DataType.FLOAT32) {
                Unpack.toFloats(store.type(), tile, headDim * KvStore.BLOCK_TOKENS, scratch.tiles.address());
                tile = scratch.tiles.address();
            }
            int depth = Math.min(KvStore.BLOCK_TOKENS, context.tokens - token);
            for (int d = 0; d < headDim; d += Lanes.PANEL) {
                long low = tile + 4L * d;
                long high = d + Lanes.COUNT < headDim ? low + 4L * Lanes.COUNT : low;
                TileKernel.multiply(
                        rows, scratch.scores, token, padded, low, high, 4L * headDim, depth, scratch.outputs, d, width);
            }
        }
    }
}
