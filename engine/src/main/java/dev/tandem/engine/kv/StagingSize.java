package dev.tandem.engine.kv;

import dev.tandem.engine.config.ConfigurationException;

/**
 * GPU memory for KV in transit while prefills are offloaded to the host layer by layer (NEO §3.1).
 *
 * <p>A step has one layer's KV in each of two areas: the GPU writes one area while the other is read. Two buffers in
 * the format of the host lie beside them, because each direction of the link copies one layer at a time. So no more
 * than four layers of one step's offloaded tokens take GPU memory, however long the prompts and however many layers.
 *
 * <p>The bytes come out of the GPU's KV memory. Strategies with and without offload thus have equal GPU bytes.
 *
 * @param tokens max tokens of all prompts that a step offloads, earlier chunks included; whole GPU blocks
 * @param areaBytes bytes of one area: one layer of {@code tokens}
 * @param copyBytes bytes of the buffer of one direction
 */
public record StagingSize(int tokens, long areaBytes, long copyBytes) {
    /** Areas of one layer each: one is written while the other leaves. */
    public static final int AREAS = 2;
    /** Without prefill offload. */
    public static final StagingSize NONE = new StagingSize(0, 0, 0);

    /** Directions over the link: KV leaves for the host, and earlier chunks return. */
    private static final int DIRECTIONS = 2;
    /**
     * Chosen in ADR 37 from 2,048 to 20,480. A larger value takes more blocks from the pool; with a smaller one, steps
     * offload too few prompts where prefills are the bottleneck.
     */
    private static final int MAX_TOKENS = 8192;
    /** More KV of a layer is copied by kernels (ADR 16). */
    private static final long MAX_COPY_BYTES = 16L << 20;

    /**
     * How the two tiers store KV.
     *
     * @param blockTokens tokens of a GPU block
     * @param hostBlockTokens tokens of a host block
     * @param layers of the model
     * @param bytesPerToken of all layers together
     */
    public record Layout(int blockTokens, int hostBlockTokens, int layers, long bytesPerToken) {
        /** Bytes of a GPU block in all layers. */
        public long blockBytes() {
            return blockTokens * bytesPerToken;
        }
    }

    /** The staging for steps of {@code maxBatchTokens}. */
    public static StagingSize of(int maxBatchTokens, Layout layout) {
        int tokens = maxTokens(maxBatchTokens, layout.blockTokens());
        long layerBytes = layout.bytesPerToken() / layout.layers();
        return new StagingSize(
                tokens,
                tokens * layerBytes,
                Math.min(MAX_COPY_BYTES, roundUp(tokens, layout.hostBlockTokens()) * layerBytes));
    }

    /** Max tokens that a step of {@code maxBatchTokens} offloads; each prompt takes whole blocks of them. */
    public static int maxTokens(int maxBatchTokens, int blockTokens) {
        return roundUp(Math.min(maxBatchTokens, MAX_TOKENS), blockTokens);
    }

    private static int roundUp(int tokens, int unit) {
        return (tokens + unit - 1) / unit * unit;
    }

    /** GPU bytes of areas and buffers. */
    public long bytes() {
        return AREAS * areaBytes + DIRECTIONS * copyBytes;
    }

    /** {@link #bytes} in whole KV blocks of all layers. */
    public int blocks(Layout layout) {
        return (int) ((bytes() + layout.blockBytes() - 1) / layout.blockBytes());
    }

    /**
     * Blocks of the GPU pool where pool and staging share {@code kvBlocks}.
     *
     * @throws ConfigurationException when the staging leaves none
     */
    public int poolBlocks(int kvBlocks, Layout layout) {
        int staging = blocks(layout);
        if (kvBlocks <= staging) {
            throw new ConfigurationException("the GPU's KV memory of " + kvBlocks + " blocks leaves none for the pool:"
                    + " staging for prefill offload takes " + staging
                    + "; raise --num-gpu-blocks-override, --kv-cache-memory or --gpu-memory-utilization, lower"
                    + " --max-num-batched-tokens, or use --strategy gpu-only");
        }
        return kvBlocks - staging;
    }
}
