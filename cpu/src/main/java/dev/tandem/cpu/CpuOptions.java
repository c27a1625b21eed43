package dev.tandem.cpu;

import dev.tandem.model.config.DataType;

/**
 * @param threads workers, the engine thread included
 * @param pinThreads bind each to a core where there are enough
 * @param weightType storage of weights; fp32 keeps GGUF blocks that lose nothing
 * @param gpuBlocks blocks of the pool that plays the GPU
 */
public record CpuOptions(
        int threads,
        boolean pinThreads,
        DataType weightType,
        DataType kvType,
        int gpuBlocks,
        int hostBlocks,
        int maxBatchTokens) {}
