package dev.tandem.cpu.simd;

import dev.tandem.model.config.DataType;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.Map;

/** The inner loops of decode attention over one KV head of one block, for one data type. */
public final class DecodeKernel {
    /** Query heads that share each load. */
    public static final int MAX_HEADS = 4;
    /** Exponent of the factor that stored values come out too small by; fp16 has it, see {@link #of}. */
    public static final int HALF_EXPONENT = 112;

    private static final int BLOCK = KvTileKernel.BLOCK;
    /** Bytes of a row of 64 lanes. */
    private static final int ROW = 4 * BLOCK;

    private static final Map<DataType, DecodeKernel> BY_TYPE = new EnumMap<>(DataType.class);

    static {
        for (DataType type : DataType.values()) {
            BY_TYPE.put(type, new DecodeKernel(type));
        }
    }

    /** Values that share a lane. */
    private final int paired;

    private final KvTileKernel keys;
    private final KvTileKernel values;

    private DecodeKernel(DataType type) {
        paired = type == DataType.FLOAT32 ? 1 : 2;
        keys = KvTileKernel.of(type, KvTileKernel.Tile.K);
        values = KvTileKernel.of(type, KvTileKernel.Tile.V);
    }

    /**
     * The kernel of a type. fp16 values come out 2^-{@value #HALF_EXPONENT} times too small: a shift and a mask widen
     * them, and the caller's scales make up for it.
     */
    public static DecodeKernel of(DataType type) {
        return BY_TYPE.get(type);
    }

    private int valueRows(int tokens) {
        return (tokens + paired - 1) / paired;
    }

    /** In how many pieces one {@link #scores} and one {@link #weigh} ask for what is ahead. */
    public int pieces(int heads, int keyRows, int headDim, int tokens) {
        int strip = KvTileKernel.strip(heads, tokens);
        int some = KvTileKernel.CHUNK / ROW;
        int others = KvTileKernel.CHUNK / (4 * headDim);
        int scores = (keyRows + some - 1) / some * ((tokens + strip - 1) / strip);
        int strips = 0;
        for (int dim = 0; KvTileKernel.strip(heads, headDim - dim) <= headDim - dim; strips++) {
            dim += KvTileKernel.strip(heads, headDim - dim);
        }
        return scores + (valueRows(tokens) + others - 1) / others * strips;
    }

    /**
     * Scores of up to 64 tokens.
     *
     * @param heads 1, 2 or 4
     * @param k address of the head's K tile
     * @param keyRows rows of it that hold dims
     * @param tokens that are there; scores of others are anything
     * @param q [keyRows][values a lane][heads], scaled
     * @param s [heads, 64]
     * @param ahead what will be read next, a piece of which is asked for now and then
     */
    public void scores(
            int heads, long k, int keyRows, int tokens, float[] q, int qo, float[] s, int so, Prefetch.Ahead ahead) {
        Arrays.fill(s, so, so + heads * BLOCK, 0);
        keys.add(heads, k, keyRows, ROW, tokens, q, qo, s, so, BLOCK, ahead);
    }

    /**
     * Adds weighted values.
     *
     * @param v address of the head's V tile
     * @param tokens that are there; one more may be read, and is zero
     * @param p [heads, 64]
     * @param o [heads, headDim] sums
     * @param ahead as for {@link #scores}
     */
    public void weigh(
            int heads, long v, int headDim, int tokens, float[] p, int po, float[] o, int oo, Prefetch.Ahead ahead) {
        values.add(heads, v, valueRows(tokens), 4 * headDim, headDim, p, po, o, oo, headDim, ahead);
    }
}
