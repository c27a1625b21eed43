package dev.tandem.cpu.decode;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.Unpack;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;
import java.lang.foreign.ValueLayout;

/**
 * The layout of a host KV block: one layer's K and V of 64 tokens. For each KV head a K tile is followed by a V tile,
 * so that attention reads a block from its beginning to its end. With 16-bit types two values share a 32-bit lane:
 *
 * <pre>
 * block   | head 0: K tile | V tile | head 1: K tile | V tile | ...
 * K tile  [pairs of dims, padded to 16][64 tokens][2 dims]
 * V tile  [32 pairs of tokens][dims][2 tokens]
 * </pre>
 *
 * <p>With fp32 a "pair" is one value. A vector of K holds the same dims of many tokens, so scores need no sum across
 * lanes. A vector of V holds many dims of the same tokens. An AMX tile is 16 rows of 64 bytes. This one format serves
 * the Vector API, AMX, and a GPU that reads host blocks over the link.
 *
 * <p>Invariant: V of tokens that are not written yet is zero, because kernels may multiply it by a weight of zero. The
 * rows that pad K are zero as well. {@link #clear} establishes this when a block's first token arrives. K of tokens
 * that are not written yet may be anything.
 *
 * @param kvHeads KV heads per block
 * @param headDim a multiple of 16, at most 256
 * @param type the type of the stored values
 */
public record BlockFormat(int kvHeads, int headDim, DataType type) {
    /** Tokens per block. */
    public static final int TOKENS = 64;
    /** Rows of an AMX tile: with 16-bit types the rows of a K tile are padded to a multiple of it. */
    public static final int KEY_ROW_STEP = 16;

    public BlockFormat {
        if (kvHeads < 1 || headDim < 16 || headDim % 16 != 0 || headDim > 256) {
            throw new ConfigurationException("host KV blocks of " + kvHeads + " heads of " + headDim
                    + ": there must be a KV head, and the head size must be a multiple of 16 from 16 to 256");
        }
    }

    /** Values that share a 32-bit lane. */
    public int pack() {
        return Float.BYTES / type.bytes();
    }

    /** Rows of a K tile: the lanes of all dims, rounded up to whole AMX tiles for 16-bit types. */
    int keyRows() {
        int rows = headDim / pack();
        return pack() == 1 ? rows : (rows + KEY_ROW_STEP - 1) / KEY_ROW_STEP * KEY_ROW_STEP;
    }

    long keyBytes() {
        return (long) keyRows() * TOKENS * Float.BYTES;
    }

    long valueBytes() {
        return (long) TOKENS * headDim * type.bytes();
    }

    /** Bytes of one KV head's tiles. */
    public long headBytes() {
        return keyBytes() + valueBytes();
    }

    /** Bytes of a block in one layer. */
    public long blockBytes() {
        return kvHeads * headBytes();
    }

    /** Byte offset of one value of K in the block. */
    public long key(int head, int token, int dim) {
        return head * headBytes()
                + ((long) (dim / pack()) * TOKENS + token) * Float.BYTES
                + (long) (dim % pack()) * type.bytes();
    }

    /** Byte offset of one value of V in the block. */
    public long value(int head, int token, int dim) {
        return head * headBytes()
                + keyBytes()
                + ((long) (token / pack()) * headDim + dim) * Float.BYTES
                + (long) (token % pack()) * type.bytes();
    }

    /** Makes a block ready for its first token: sets V and the rows that pad K to zero. */
    public void clear(long block) {
        long keys = (long) headDim / pack() * TOKENS * Float.BYTES;
        for (int head = 0; head < kvHeads; head++) {
            Lanes.MEMORY
                    .asSlice(block + head * headBytes() + keys, headBytes() - keys)
                    .fill((byte) 0);
        }
    }

    /**
     * Appends one token's K and V; the first token of a block clears the block before.
     *
     * @param block address of the block
     * @param token the token's index in the block
     * @param k address of [kvHeads, headDim] of this type
     * @param v address of [kvHeads, headDim] of this type
     */
    public void append(long block, int token, long k, long v) {
        if (token == 0) {
            clear(block);
        }
        for (int head = 0; head < kvHeads; head++) {
            appendKey(block, head, token, k);
            appendValue(block, head, token, v);
        }
    }

    /** Writes one head's K of a token; parameters as for {@link #append}. The block has been cleared. */
    void appendKey(long block, int head, int token, long k) {
        long from = k + (long) head * headDim * type.bytes();
        long to = block + key(head, token, 0);
        for (int lane = 0; lane < headDim / pack(); lane++) {
            Lanes.MEMORY.set(
                    ValueLayout.JAVA_INT,
                    to + 4L * TOKENS * lane,
                    Lanes.MEMORY.get(ValueLayout.JAVA_INT_UNALIGNED, from + 4L * lane));
        }
    }

    /** Writes one head's V of a token; parameters as for {@link #append}. The block has been cleared. */
    void appendValue(long block, int head, int token, long v) {
        long from = v + (long) head * headDim * type.bytes();
        long to = block + value(head, token, 0);
        for (int dim = 0; dim < headDim; dim++) {
            if (type == DataType.FLOAT32) {
                Lanes.MEMORY.set(
                        ValueLayout.JAVA_INT, to + 4L * dim, Lanes.MEMORY.get(ValueLayout.JAVA_INT, from + 4L * dim));
            } else {
                Lanes.MEMORY.set(
                        ValueLayout.JAVA_SHORT,
                        to + 4L * dim,
                        Lanes.MEMORY.get(ValueLayout.JAVA_SHORT, from + 2L * dim));
            }
        }
    }

    /**
     * Writes the block's first {@code tokens} tokens, as an offloaded prefill does; the rest of V is zero.
     *
     * @param k address of [tokens, kvHeads, headDim] of this type
     * @param v address of [tokens, kvHeads, headDim] of this type
     */
    public void finish(long block, int tokens, long k, long v) {
        long row = (long) kvHeads * headDim * type.bytes();
        for (int token = 0; token < tokens; token++) {
            append(block, token, k + token * row, v + token * row);
        }
    }

    /**
     * Reads the block's first {@code tokens} tokens back, as for a swap to GPU blocks.
     *
     * @param k address of [tokens, kvHeads, headDim] of this type; overwritten
     * @param v address of [tokens, kvHeads, headDim] of this type; overwritten
     */
    public void take(long block, int tokens, long k, long v) {
        for (int token = 0; token < tokens; token++) {
            for (int head = 0; head < kvHeads; head++) {
                for (int dim = 0; dim < headDim; dim++) {
                    long to = ((long) (token * kvHeads + head) * headDim + dim) * type.bytes();
                    copy(block + key(head, token, dim), k + to);
                    copy(block + value(head, token, dim), v + to);
                }
            }
        }
    }

    private void copy(long from, long to) {
        if (type == DataType.FLOAT32) {
            Lanes.MEMORY.set(ValueLayout.JAVA_INT, to, Lanes.MEMORY.get(ValueLayout.JAVA_INT, from));
        } else {
            Lanes.MEMORY.set(ValueLayout.JAVA_SHORT, to, Lanes.MEMORY.get(ValueLayout.JAVA_SHORT, from));
        }
    }

    /** Reads a stored value as fp32. */
    public float load(long address) {
        return switch (type) {
            case FLOAT32 -> Lanes.MEMORY.get(ValueLayout.JAVA_FLOAT, address);
            case BFLOAT16 -> Float.intBitsToFloat(Lanes.MEMORY.get(ValueLayout.JAVA_SHORT, address) << 16);
            case FLOAT16 -> Float.float16ToFloat(Lanes.MEMORY.get(ValueLayout.JAVA_SHORT, address));
        };
    }

    /** Stores a value, rounded to the type. */
    public void store(long address, float value) {
        switch (type) {
            case FLOAT32 -> Lanes.MEMORY.set(ValueLayout.JAVA_FLOAT, address, value);
            case BFLOAT16 -> Lanes.MEMORY.set(ValueLayout.JAVA_SHORT, address, Unpack.toBf16(value));
            case FLOAT16 -> Lanes.MEMORY.set(ValueLayout.JAVA_SHORT, address, Float.floatToFloat16(value));
        }
    }
}
