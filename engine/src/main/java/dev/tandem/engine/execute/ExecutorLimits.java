package dev.tandem.engine.execute;

/**
 * @param vocabulary number of token ids, all below it
 * @param contextTokens longest sequence the model allows
 * @param blockTokens tokens a KV block
 * @param maxBatchTokens most rows a step may have
 * @param layers that rows in flight pass
 * @param kvBytesPerToken of all layers
 * @param overlaps whether CPU attention runs beside the GPU's work, rather than on the same cores
 */
public record ExecutorLimits(
        int vocabulary, int contextTokens, int blockTokens, int gpuBlocks, int hostBlocks, int maxBatchTokens,
        int layers, long kvBytesPerToken, boolean overlaps) {}
