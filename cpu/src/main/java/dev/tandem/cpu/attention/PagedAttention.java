package dev.tandem.cpu.attention;

import dev.tandem.cpu.decode.Partial;
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
 * is computed on its own in a fixed order: scores by ascending dimension, values by ascending token, segment by
 * segment. Chunking, batching and threads therefore never change a bit of the result.
 */
public final class PagedAttention {
    /** Rows of a tile, a row being one (query token, head of the group); they share each load of K and V. */
    public static final int TILE_ROWS = 8;

    /**
     * Tokens per segment of a context. Segments begin at multiples of this, and their results are merged in order, so
     * the threads that compute a tile change no bit.
     *
     * <p>Measured on one core with 6 heads of 128 over 2,048 tokens: segments of 64 tokens take 1.12 times as long as a
     * single one, segments of 128 take 1.05 times as long, and segments of 256 (16 µs each) the same within the noise.
     */
    public static final int SEGMENT_TOKENS = 256;

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
     * A tile: consecutive query tokens of one sequence, and their query heads of one KV head.
     *
     * @param store holds in {@code blocks} K and V of the positions up to {@code position + tokens} that are attended
     *     to
     * @param layer index among the layers of the store
     * @param position the position of the first query token
     * @param tokens at most {@link #tileTokens}
     * @param q [tokens, group, headDim] from {@code qo}, tokens {@code qs} apart
     * @param out [tokens, group, headDim] from {@code oo}, tokens {@code os} apart; overwritten
     */
    public record Tile(
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
            int os) {
        private int rows() {
            return tokens * rule.group;
        }

        /** The first token that the first query attends to. */
        private int visible() {
            return SlidingWindow.first(position, rule.window);
        }

        /** How many segments the tile reads. */
        public int segments() {
            return (position + tokens - 1) / SEGMENT_TOKENS - visible() / SEGMENT_TOKENS + 1;
        }
    }

    /** Room for the partial result of a tile of up to {@code rows} rows. */
    public static Partial partial(int rows, int headDim) {
        return new Partial(rows, Lanes.padded(headDim));
    }

    /** Computes one tile: {@code out = softmax(q · K · scale) · V}, in fp32. */
    public static void tile(Tile tile, AttentionScratch scratch) {
        segment(tile, 0, scratch, scratch.result);
        for (int i = 1; i < tile.segments(); i++) {
            segment(tile, i, scratch, scratch.segment);
            scratch.result.merge(scratch.segment);
        }
        finish(tile, scratch.result);
    }

    /**
     * Computes the partial result of one of a tile's segments. Merged in order, they have the bits of {@link #tile}.
     *
     * <p>With a window, reading starts at the block that holds the first visible token of the tile's first query. A
     * token that a query does not see has weight 0. Blocks begin at multiples of {@link RowOps#PARTIAL_SUMS}, so each
     * sum has the order of a sum over the whole segment, whichever queries share the tile.
     *
     * @param index of the segment, below {@link Tile#segments}
     * @param result overwritten
     */
    public static void segment(Tile tile, int index, AttentionScratch scratch, Partial result) {
        int firstBlock = tile.visible() / KvStore.BLOCK_TOKENS;
        int begin = (tile.visible() / SEGMENT_TOKENS + index) * SEGMENT_TOKENS;
        int first = Math.max(begin, firstBlock * KvStore.BLOCK_TOKENS);
        int end = Math.min(begin + SEGMENT_TOKENS, tile.position + tile.tokens);
        Context context = new Context(tile, first / KvStore.BLOCK_TOKENS, end - first);
        int rows = tile.rows();
        int padded = Lanes.padded(Math.ceilDiv(context.tokens, KvStore.BLOCK_TOKENS) * KvStore.BLOCK_TOKENS);
        float[] scores = scratch.scores;
        copyQueries(tile, scratch.queries);
        Arrays.fill(scores, 0, rows * padded, 0);
        score(context, rows, padded, scratch);
        result.clear();
        for (int row = 0; row < rows; row++) {
            int query = tile.position + row / tile.rule.group;
            int from = Math.max(0, SlidingWindow.first(query, tile.rule.window) - first);
            int to = Math.min(context.tokens, query + 1 - first);
            if (from < to) {
                result.sum[row] = RowOps.softmax(scores, row * padded, from, to, padded, result.max, row);
            } else { // the query sees nothing of this segment
                Arrays.fill(scores, row * padded, (row + 1) * padded, 0);
            }
        }
        addValues(context, rows, padded, scratch, result.weighted);
    }

    /** Writes a tile's outputs: weighted sums divided by sums of weights. */
    public static void finish(Tile tile, Partial result) {
        int headDim = tile.store.headDim();
        int group = tile.rule.group;
        int width = Lanes.padded(headDim);
        for (int row = 0; row < tile.rows(); row++) {
            int to = tile.oo + row / group * tile.os + row % group * headDim;
            float inverse = 1 / result.sum[row];
            for (int d = 0; d < headDim; d++) {
                tile.out[to + d] = result.weighted[row * width + d] * inverse;
            }
        }
    }

    /**
     * The K and V of a segment; tokens are counted from the first one of the first block.
     *
     * @param firstBlock index of the first block that is read
     */
    private record Context(Tile tile, int firstBlock, int tokens) {
        int block(int token) {
            return tile.blocks.block(firstBlock + token / KvStore.BLOCK_TOKENS);
        }

        KvStore store() {
            return tile.store;
        }

        long keys(int token) {
            return tile.store.keys(tile.layer, block(token), tile.kvHead);
        }

        long values(int token) {
            return tile.store.values(tile.layer, block(token), tile.kvHead);
        }
    }

    /** Copies the queries, one row per (token, head), times scale and log2(e): softmax uses powers of two. */
    private static void copyQueries(Tile tile, float[] to) {
        float factor = (float) (PowerOfTwo.LOG2_E * tile.rule.scale);
        int width = tile.rule.group * tile.store.headDim();
        for (int token = 0; token < tile.tokens; token++) {
            for (int i = 0; i < width; i++) {
                to[token * width + i] = tile.q[tile.qo + token * tile.qs + i] * factor;
            }
        }
    }

    /** Computes the scores of all rows with all tokens, two vectors of tokens at a time. */
    private static void score(Context context, int rows, int padded, AttentionScratch scratch) {
        int headDim = context.store().headDim();
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
        KvStore store = context.store();
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

    /** Adds softmax weights · V to {@code weighted}, block by block. */
    private static void addValues(Context context, int rows, int padded, AttentionScratch scratch, float[] weighted) {
        KvStore store = context.store();
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
                        rows, scratch.scores, token, padded, low, high, 4L * headDim, depth, weighted, d, width);
            }
        }
    }
}
