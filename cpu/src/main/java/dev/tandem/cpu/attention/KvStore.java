package dev.tandem.cpu.attention;

import dev.tandem.cpu.simd.Unpack;
import dev.tandem.cpu.topology.NativeMemory;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.model.config.DataType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * The KV blocks of one tier of the CPU executor. The layout is {@code [layer][block][kvHead]}, each a K tile
 * {@code [headDim][16 tokens]} followed by a V tile {@code [16 tokens][headDim]}. Layers are those of one group of
 * {@code KvLayout}; each block belongs to one of the groups.
 *
 * <p>In a K tile the tokens of one dimension are contiguous; in a V tile the dimensions of one token are. Both GEMMs of
 * attention can therefore use {@code TileKernel} without a sum across lanes.
 *
 * <p>The arena frees the memory. Owned by: the executor; workers may write different sequences' blocks in parallel.
 */
public final class KvStore {
    /** Tokens per block. */
    public static final int BLOCK_TOKENS = 16;
    /** Bytes after the last tile; kernels load whole vectors and may read past its end. */
    private static final int SLACK = 256;

    private final int blocks;
    private final int layers;
    private final int kvHeads;
    private final int headDim;
    private final DataType type;
    private final MemorySegment data;

    /**
     * Allocates a pool of zeroed blocks.
     *
     * @param blocks how many, each with K and V of {@link #BLOCK_TOKENS} tokens in all layers
     * @param arena frees the memory
     * @throws OutOfMemoryError if the system does not grant the memory; the message names the tier and the size
     */
    public KvStore(KvTier tier, int blocks, int layers, int kvHeads, int headDim, DataType type, Arena arena) {
        this.blocks = blocks;
        this.layers = layers;
        this.kvHeads = kvHeads;
        this.headDim = headDim;
        this.type = type;
        this.data = NativeMemory.allocate(bytes(blocks), "the " + tier + " KV pool of " + blocks + " blocks", arena);
    }

    public DataType type() {
        return type;
    }

    public int kvHeads() {
        return kvHeads;
    }

    public int headDim() {
        return headDim;
    }

    private long tileBytes() {
        return (long) headDim * BLOCK_TOKENS * type.bytes();
    }

    /** Bytes of {@code blocks} blocks in all layers. */
    private long bytes(int blocks) {
        return Math.addExact(Math.multiplyExact((long) layers * blocks, blockBytes()), SLACK);
    }

    /** Bytes of one block in one layer. */
    private long blockBytes() {
        return 2L * kvHeads * tileBytes();
    }

    private long keyOffset(int layer, int block, int head) {
        return ((long) layer * blocks + block) * blockBytes() + 2L * head * tileBytes();
    }

    /** Address of a K tile {@code [headDim][16 tokens]}. */
    public long keys(int layer, int block, int head) {
        return data.address() + keyOffset(layer, block, head);
    }

    /** Address of a V tile {@code [16 tokens][headDim]}. */
    public long values(int layer, int block, int head) {
        return keys(layer, block, head) + tileBytes();
    }

    /**
     * Stores K and V of one token for one KV head, rounded to the pool's type.
     *
     * @param slot the token's index in the block, 0 to 15
     * @param key [headDim] from {@code ko}
     * @param value [headDim] from {@code vo}
     */
    public void append(int layer, int block, int slot, int head, float[] key, int ko, float[] value, int vo) {
        long k = keyOffset(layer, block, head) + (long) slot * type.bytes();
        long v = keyOffset(layer, block, head) + tileBytes() + (long) slot * headDim * type.bytes();
        long step = (long) BLOCK_TOKENS * type.bytes();
        switch (type) {
            case FLOAT32 -> {
                for (int d = 0; d < headDim; d++) {
                    data.set(ValueLayout.JAVA_FLOAT, k + d * step, key[ko + d]);
                    data.set(ValueLayout.JAVA_FLOAT, v + 4L * d, value[vo + d]);
                }
            }
            case BFLOAT16 -> {
                for (int d = 0; d < headDim; d++) {
                    data.set(ValueLayout.JAVA_SHORT, k + d * step, Unpack.toBf16(key[ko + d]));
                    data.set(ValueLayout.JAVA_SHORT, v + 2L * d, Unpack.toBf16(value[vo + d]));
                }
            }
            case FLOAT16 -> {
                for (int d = 0; d < headDim; d++) {
                    data.set(ValueLayout.JAVA_SHORT, k + d * step, Float.floatToFloat16(key[ko + d]));
                    data.set(ValueLayout.JAVA_SHORT, v + 2L * d, Float.floatToFloat16(value[vo + d]));
                }
            }
        }
    }

    /** Fills every block with NaN, for tests: as if a failed request had written all of them. */
    public void poison() {
        data.fill((byte) 0xff);
    }

    /**
     * Copies whole blocks, in all layers, to another store of the same shape; {@code from[i]} goes to {@code to[i]}.
     */
    public void copyTo(KvStore target, int[] from, int[] to) {
        for (int layer = 0; layer < layers; layer++) {
            for (int i = 0; i < from.length; i++) {
                MemorySegment.copy(
                        data,
                        keyOffset(layer, from[i], 0),
                        target.data,
                        target.keyOffset(layer, to[i], 0),
                        blockBytes());
            }
        }
    }
}
