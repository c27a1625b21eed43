package dev.tandem.engine.schedule;

/**
 * How much KV the GPU is to hold while requests wait, and what that gains (ADR 141).
 *
 * @param freeBlocks of the GPU's pool that are to stay free; 0 where a full GPU does as much
 * @param gpuTokens of context that the GPU's decodes then have; 0 where a full GPU does as much
 * @param hostTokens per step with these blocks free; 0 where a full GPU does as much
 * @param gain in tokens per second over gpu-only with a full GPU, as a fraction; 0 where a full GPU does as much
 */
public record GpuKvLimit(int freeBlocks, long gpuTokens, int hostTokens, double gain) {
    /** A full GPU. */
    public static final GpuKvLimit NONE = new GpuKvLimit(0, 0, 0, 0);
}
