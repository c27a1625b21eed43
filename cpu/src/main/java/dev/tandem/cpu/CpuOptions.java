package dev.tandem.cpu;

import dev.tandem.cpu.simd.ActivationPrecision;
import dev.tandem.cpu.simd.Int8Kernel;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;

/**
 * Options of the CPU executor.
 *
 * @param threads workers, the engine thread included
 * @param attentionThreads how many of them compute the attention that a plan gives to the CPU
 * @param pinThreads whether to bind each worker to a core of its own, where {@code CpuTopology.canPin} allows it
 * @param weightType storage type of weights that are not quantised; GGUF blocks are kept as they are
 * @param activations how activations enter GEMMs with quantised matrices
 * @param kvType storage type of K and V
 * @param gpuBlocks blocks of the pool that stands for the GPU tier
 * @param hostBlocks blocks of the host tier's pool
 * @param maxBatchTokens how many tokens a step may compute at most
 */
public record CpuOptions(
        int threads,
        int attentionThreads,
        boolean pinThreads,
        DataType weightType,
        ActivationPrecision activations,
        DataType kvType,
        int gpuBlocks,
        int hostBlocks,
        int maxBatchTokens) {
    /** @throws ConfigurationException if a number of threads is out of range; the message names the flag */
    public CpuOptions {
        if (threads < 1) {
            throw new ConfigurationException("--threads " + threads + " is too small; at least 1 thread must compute");
        }
        if (attentionThreads < 1 || attentionThreads > threads) {
            throw new ConfigurationException("--attention-threads " + attentionThreads + " is out of range; use 1 to "
                    + threads + ", since these threads are some of the --threads");
        }
        if (activations == ActivationPrecision.INT8 && Int8Kernel.find().isEmpty()) {
            throw new ConfigurationException("--cpu-activations int8 cannot be used: " + Int8Kernel.obstacle()
                    + "; use --cpu-activations exact");
        }
    }
}
