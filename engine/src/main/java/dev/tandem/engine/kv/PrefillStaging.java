package dev.tandem.engine.kv;

/**
 * How many GPU blocks hold KV in transit while a step offloads prefills to the host layer by layer (NEO §3.1).
 *
 * <p>A step borrows free blocks of the GPU pool and gives them back when it ends. A block is as large as the KV of its
 * tokens in all layers of a group, so it may have room for many tokens of one layer. A step holds one layer of its
 * offloaded prompts. Beside it lie buffers in the host's format, one layer per direction of the link: the copy engine
 * needs contiguous host blocks, and carries them while the GPU computes a layer.
 *
 * <p>Strategies with and without offload thus have equal pools, and a strategy that offloads nothing loses nothing.
 *
 * @param blockTokens tokens of a GPU block
 * @param hostBlockTokens tokens of a host block
 * @param layers of a group, so of a block ({@link KvLayout}); 0 where prefills need no staging
 */
public record PrefillStaging(int blockTokens, int hostBlockTokens, int layers) {
    /** For executors that write prefills to the host directly. */
    public static final PrefillStaging NONE = new PrefillStaging(1, 1, 0);

    /**
     * Max tokens of all prompts that a step offloads. Chosen in ADR 37 from 2,048 to 20,480: with smaller values, steps
     * offload too few prompts where prefills are the bottleneck. With 2,048 and 4,096, azure-code on {@code h200-26k}
     * has 0.92 and 0.90 of its tokens/s (docs/results/constants.jsonl).
     */
    private static final int MAX_TOKENS = 8192;

    /**
     * What a step's offloaded prompts need.
     *
     * @param gpuBlocks blocks of all prompts, earlier chunks included
     * @param hostBlocks host blocks that cross the link, in both directions
     */
    public record Need(int gpuBlocks, int hostBlocks) {
        /** Of a step that offloads nothing. */
        public static final Need NOTHING = new Need(0, 0);

        /** The need of both. */
        public Need plus(Need other) {
            return new Need(gpuBlocks + other.gpuBlocks, hostBlocks + other.hostBlocks);
        }

        /** The need without that of {@code other}. */
        public Need minus(Need other) {
            return new Need(gpuBlocks - other.gpuBlocks, hostBlocks - other.hostBlocks);
        }
    }

    /** Whether prefills pass through staging. */
    public boolean isUsed() {
        return layers > 0;
    }

    /**
     * Tokens of a chunk whose KV leaves for the host: with its own, those of earlier chunks in the host block where it
     * begins, because whole blocks leave.
     *
     * @param start tokens of earlier chunks
     * @param rows tokens of this chunk
     */
    public int leaving(int start, int rows) {
        return start % hostBlockTokens + rows;
    }

    /**
     * What one chunk of a prompt needs: earlier chunks return from the host, and the new tokens leave.
     *
     * @param start tokens of earlier chunks
     * @param rows tokens of this chunk
     */
    public Need need(int start, int rows) {
        if (rows == 0) {
            return Need.NOTHING;
        }
        int leaving = blocks(start + rows, hostBlockTokens) - start / hostBlockTokens;
        return new Need(blocks(start + rows, blockTokens), leaving + blocks(start, hostBlockTokens));
    }

    /** What the chunk of a prompt of {@code tokens} needs that needs most. */
    public Need max(int tokens) {
        // where a chunk begins within a host block, that block returns and leaves again
        return new Need(blocks(tokens, blockTokens), blocks(tokens, hostBlockTokens) + 1);
    }

    /** Max tokens of prompts that a step offloads, earlier chunks included; each prompt takes whole blocks of them. */
    public int maxTokens() {
        return blocks(MAX_TOKENS, blockTokens) * blockTokens;
    }

    /** Blocks to borrow: those of {@link #layerBlocks}, and then those of {@link #copyBlocks}. */
    public int blocks(Need need) {
        return layerBlocks(need.gpuBlocks()) + copyBlocks(need.hostBlocks());
    }

    /** Blocks that hold one layer of {@code gpuBlocks} blocks of prompts. */
    public int layerBlocks(int gpuBlocks) {
        return isUsed() ? blocks(gpuBlocks, layers) : 0;
    }

    /** Blocks that hold {@code hostBlocks} host blocks of one layer; 0 where {@link #copiesPerBlock} is. */
    private int copyBlocks(int hostBlocks) {
        return copiesPerBlock() == 0 ? 0 : blocks(hostBlocks, copiesPerBlock());
    }

    /** Host blocks of one layer that a GPU block has room for; 0 for models of few layers, which kernels copy. */
    public int copiesPerBlock() {
        return layers * blockTokens / hostBlockTokens;
    }

    private static int blocks(int tokens, int each) {
        return (tokens + each - 1) / each;
    }
}
