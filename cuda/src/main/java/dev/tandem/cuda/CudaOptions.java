package dev.tandem.cuda;

import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.DataType;
import java.util.OptionalInt;

/**
 * Options of the CUDA executor.
 *
 * @param device number of the GPU
 * @param multiprocessorLimit max multiprocessors used; 0 for all
 * @param bandwidthLimit bytes per microsecond of GPU memory that kernels on the other multiprocessors leave; 0 for all
 * @param type of weights and KV, bfloat16 or float16
 * @param memoryUtilization fraction of the GPU's memory that may be used, weights and everything else included
 * @param gpuBlocks KV blocks of the GPU pool; empty for as many as fit
 * @param hostBytes memory of the host pool
 * @param maxBatchTokens max rows of a step
 * @param maxSequences max sequences of a step
 * @param graphs whether decode steps are replayed from graphs
 * @param attentionThreads CPU threads that compute attention of host tokens; with 0 the host tier only holds preempted
 *     KV
 * @param pinThreads whether each of them is bound to a core of its own, where {@code CpuTopology.canPin} allows it
 * @param slots max in-flight tokens that enter, finish or go on at a layer in a step; each is a row of memory, and 4
 *     bytes of logits per token of the vocabulary
 * @param watchdogNanos time after which an attention task counts as stalled; a step waits for its host tokens at most
 *     twice as long
 * @param kvChecksums whether checksums are compared on both sides of every KV copy; a difference ends the executor
 */
public record CudaOptions(
        int device,
        int multiprocessorLimit,
        double bandwidthLimit,
        DataType type,
        double memoryUtilization,
        OptionalInt gpuBlocks,
        long hostBytes,
        int maxBatchTokens,
        int maxSequences,
        boolean graphs,
        int attentionThreads,
        boolean pinThreads,
        int slots,
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
        if (bandwidthLimit > 0 && multiprocessorLimit == 0) {
            throw new ConfigurationException("--gpu-bandwidth-limit needs --gpu-sm-limit: the kernels that take"
                    + " bandwidth run on the multiprocessors that it leaves free");
        }
        if (slots < 1 || slots > HostLinkMemory.MAX_SLOTS) {
            throw new ConfigurationException("a step has " + slots + " slots for in-flight tokens; it must have 1 to "
                    + HostLinkMemory.MAX_SLOTS);
        }
        if (maxSequences > maxBatchTokens) {
            throw new ConfigurationException("--max-num-seqs " + maxSequences
                    + " is more than --max-num-batched-tokens "
                    + maxBatchTokens + ": every running sequence takes one token of a step");
        }
    }

    /**
     * Returns a builder of options for all of GPU 0, without a host tier.
     *
     * @param type of weights and KV, bfloat16 or float16
     * @param maxBatchTokens max rows of a step
     * @param maxSequences max sequences of a step
     */
    public static Builder builder(DataType type, int maxBatchTokens, int maxSequences) {
        return new Builder(type, maxBatchTokens, maxSequences);
    }

    /** Builds {@link CudaOptions}. */
    public static final class Builder {
        private final DataType type;
        private final int maxBatchTokens;
        private final int maxSequences;
        private int device;
        private int multiprocessorLimit;
        private double bandwidthLimit;
        private double memoryUtilization = 1;
        private OptionalInt gpuBlocks = OptionalInt.empty();
        private long hostBytes;
        private boolean graphs = true;
        private int attentionThreads;
        private boolean pinThreads;
        private int slots = HostLinkMemory.USUAL_SLOTS;
        private long watchdogNanos;
        private boolean kvChecksums;

        private Builder(DataType type, int maxBatchTokens, int maxSequences) {
            this.type = type;
            this.maxBatchTokens = maxBatchTokens;
            this.maxSequences = maxSequences;
        }

        /**
         * Sets the GPU.
         *
         * @param number of the GPU
         * @param limit max multiprocessors used; 0 for all
         */
        public Builder device(int number, int limit) {
            device = number;
            multiprocessorLimit = limit;
            return this;
        }

        /** Sets the bytes per microsecond of GPU memory that are left; all unless set. */
        public Builder bandwidthLimit(double bytes) {
            bandwidthLimit = bytes;
            return this;
        }

        /** Sets the fraction of the GPU's memory that may be used; all unless set. */
        public Builder memoryUtilization(double fraction) {
            memoryUtilization = fraction;
            return this;
        }

        /** Sets the KV blocks of the GPU pool; as many as fit unless set. */
        public Builder gpuBlocks(OptionalInt blocks) {
            gpuBlocks = blocks;
            return this;
        }

        /** Sets the bytes of the host pool. */
        public Builder hostBytes(long bytes) {
            hostBytes = bytes;
            return this;
        }

        /** Sets whether decode steps are replayed from graphs; they are unless set. */
        public Builder graphs(boolean value) {
            graphs = value;
            return this;
        }

        /**
         * Sets the CPU threads that compute attention of host tokens.
         *
         * @param threads 0 when the host tier only holds preempted KV
         * @param pin whether each is bound to a core of its own where that is allowed
         * @param watchdog nanoseconds after which a task counts as stalled
         */
        public Builder attentionThreads(int threads, boolean pin, long watchdog) {
            attentionThreads = threads;
            pinThreads = pin;
            watchdogNanos = watchdog;
            return this;
        }

        /** Sets the max in-flight tokens that enter, finish or go on at a layer in a step; 64 unless set. */
        public Builder slots(int max) {
            slots = max;
            return this;
        }

        /** Sets whether checksums are compared on both sides of every KV copy. */
        public Builder kvChecksums(boolean value) {
            kvChecksums = value;
            return this;
        }

        /**
         * Checks the options and builds them.
         *
         * @throws ConfigurationException that names the flag
         */
        public CudaOptions build() {
            return new CudaOptions(
                    device,
                    multiprocessorLimit,
                    bandwidthLimit,
                    type,
                    memoryUtilization,
                    gpuBlocks,
                    hostBytes,
                    maxBatchTokens,
                    maxSequences,
                    graphs,
                    attentionThreads,
                    pinThreads,
                    slots,
                    watchdogNanos,
                    kvChecksums);
        }
    }
}
