package dev.tandem.cpu;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;

/**
 * @param threads workers, the engine thread included
 * @param attentionThreads of them, those that compute the attention that a plan gives to the CPU
 * @param pinThreads bind each to a core where there are enough
 * @param weightType storage of weights, but for GGUF blocks that are kept as they are
 * @param gpuBlocks blocks of the pool that plays the GPU
 */
public record CpuOptions(
        int threads,
        int attentionThreads,
        boolean pinThreads,
        DataType weightType,
        DataType kvType,
        int gpuBlocks,
        int hostBlocks,
        int maxBatchTokens) {
    /** @throws ConfigurationException that names the flag */
    public CpuOptions {
        if (threads < 1) {
            throw new ConfigurationException(
                    "--threads " + threads + " leaves nobody to compute; it must be at least 1");
        }
        if (attentionThreads < 1 || attentionThreads > threads) {
            throw new ConfigurationException("--attention-threads " + attentionThreads + " must lie in [1, " + threads
                    + "]: they are some of the --threads");
        }
    }
}
