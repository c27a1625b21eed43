package dev.tandem.cuda;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;
import java.util.OptionalInt;

/**
 * Options of the CUDA executor.
 *
 * @param device number of the GPU
 * @param multiprocessorLimit max multiprocessors used; 0 for all
 * @param type of weights and KV, bfloat16 or float16
 * @param memoryUtilization share of the GPU's memory that may be used, weights and everything else included
 * @param gpuBlocks KV blocks of the GPU pool; empty for as many as fit
 * @param hostBytes memory of the host pool
 * @param maxBatchTokens max rows of a step
 * @param maxSequences max sequences of a step
 * @param graphs whether decode steps are replayed from graphs
 * @param attentionThreads CPU threads that compute attention of host tokens; with 0 the host tier only holds preempted
 *     KV
 * @param pinThreads whether each of them is bound to a core of its own, where {@code CpuTopology.canPin} allows it
 * @param watchdogNanos time after which an attention task counts as stalled; a step waits for its host tokens at most
 *     twice as long
 * @param kvChecksums whether checksums are compared on both sides of every KV copy; a difference ends the executor
 */
public record CudaOptions(
        int device,
        int multiprocessorLimit,
        DataType type,
        double memoryUtilization,
        OptionalInt gpuBlocks,
        long hostBytes,
        int maxBatchTokens,
        int maxSequences,
        boolean graphs,
        int attentionThreads,
        boolean pinThreads,
        long watchdogNanos,
        boolean kvChecksums) {
    /** @throws ConfigurationException that names the flag */
    public CudaOptions {
        if (!(memoryUtilization > 0 && memoryUtilization <= 1)) {
            throw new ConfigurationException("--gpu-memory-utilization " + memoryUtilization + " must lie in (0, 1]");
        }
        if (multiprocessorLimit < 0) {
            throw new ConfigurationException(
                    "--gpu-sm-limit " + multiprocessorLimit + " must be positive, or 0 for all");
        }
        if (maxSequences > maxBatchTokens) {
            throw new ConfigurationException("--max-num-seqs " + maxSequences
                    + " is more than --max-num-batched-tokens "
                    + maxBatchTokens + ": every running sequence takes one token of a step");
        }
    }
}
