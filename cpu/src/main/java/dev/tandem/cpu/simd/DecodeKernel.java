package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.util.Arrays;

/** The inner loops of decode attention over one KV head of one block, for one data type. */
public final class DecodeKernel {
    /** The maximum of query heads per call; they share each load of K and V. */
    public static final int MAX_HEADS = 4;
    /** The kernel for fp16 multiplies every stored value by 2^-112; see {@link #of}. */
    public static final int HALF_EXPONENT = 112;

    private static final int BLOCK = KvTileKernel.BLOCK;
    /** Bytes of a K tile's row, which has 64 lanes. */
    private static final int ROW = 4 * BLOCK;

    private static final DecodeKernel FLOAT32 = new DecodeKernel(DataType.FLOAT32);
    private static final DecodeKernel BFLOAT16 = new DecodeKernel(DataType.BFLOAT16);
    private static final DecodeKernel FLOAT16 = new DecodeKernel(DataType.FLOAT16);

    /** Values that share a 32-bit lane. */
    private final int pack;

    private final KvTileKernel keys;
    private final KvTileKernel values;

    private DecodeKernel(DataType type) {
        pack = type == DataType.FLOAT32 ? 1 : 2;
        keys = KvTileKernel.of(type, KvTileKernel.Tile.K);
        values = KvTileKernel.of(type, KvTileKernel.Tile.V);
    }

    /**
     * Returns the kernel for a type. The kernel for fp16 widens values with a shift and a mask only, so each is
     * multiplied by 2^-{@value #HALF_EXPONENT}. The caller's scales compensate for that.
     */
    public static DecodeKernel of(DataType type) {
        return switch (type) {
            case FLOAT32 -> FLOAT32;
            case BFLOAT16 -> BFLOAT16;
            case FLOAT16 -> FLOAT16;
        };
    }

    private int valueRows(int tokens) {
        return (tokens + pack - 1) / pack;
    }

    /** In how many pieces one {@link #scores} and one {@link #addValues} prefetch what {@code ahead} holds. */
    public int pieces(int heads, int keyRows, int headDim, int tokens) {
        int strip = KvTileKernel.strip(heads, tokens);
        int keyChunk = KvTileKernel.CHUNK / ROW;
        int valueChunk = KvTileKernel.CHUNK / (4 * headDim);
        int scores = (keyRows + keyChunk - 1) / keyChunk * ((tokens + strip - 1) / strip);
        int strips = 0;
        for (int dim = 0; KvTileKernel.strip(heads, headDim - dim) <= headDim - dim; strips++) {
            dim += KvTileKernel.strip(heads, headDim - dim);
        }
        return scores + (valueRows(tokens) + valueChunk - 1) / valueChunk * strips;
    }

    /**
     * Computes the scores of a block's tokens.
     *
     * @param heads query heads: 1, 2 or 4
     * @param k address of the KV head's K tile
     * @param keyRows rows of the tile that hold dims
     * @param tokens how many tokens the block holds, up to 64; the scores after these are undefined
     * @param q [keyRows][values per lane][heads] from {@code qo}, scaled
     * @param s [heads, 64] from {@code so}; overwritten
     * @param ahead what will be read next; it is prefetched piece by piece
     */
    public void scores(
            int heads, long k, int keyRows, int tokens, float[] q, int qo, float[] s, int so, Prefetch.Ahead ahead) {
        Arrays.fill(s, so, so + heads * BLOCK, 0);
        keys.add(heads, k, keyRows, ROW, tokens, q, qo, s, so, BLOCK, ahead);
    }

    /**
     * Adds a block's V, weighted, to sums.
     *
     * @param v address of the KV head's V tile
     * @param tokens how many tokens the block holds; V of one more may be read and must be zero
     * @param p [heads, 64] weights from {@code po}
     * @param o [heads, headDim] sums from {@code oo}; added to
     * @param ahead as for {@link #scores}
     */
    public void addValues(
            int heads, long v, int headDim, int tokens, float[] p, int po, float[] o, int oo, Prefetch.Ahead ahead) {
        values.add(heads, v, valueRows(tokens), 4 * headDim, headDim, p, po, o, oo, headDim, ahead);
    }
}
