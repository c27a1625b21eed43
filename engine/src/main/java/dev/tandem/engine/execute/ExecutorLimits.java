package dev.tandem.engine.execute;

/**
 * @param vocabulary number of token ids, all below it
 * @param contextTokens longest sequence the model allows
 * @param blockTokens tokens a KV block
 * @param maxBatchTokens most rows a step may have
 */
public record ExecutorLimits(
        int vocabulary, int contextTokens, int blockTokens, int gpuBlocks, int hostBlocks, int maxBatchTokens) {}
