package dev.tandem.engine.schedule;

import dev.tandem.engine.config.ConfigurationException;

/**
 * The max size of a step.
 *
 * @param maxBatchTokens max tokens of all sequences together
 * @param maxSequences max sequences that run at the same time
 * @param maxChunkTokens max tokens of one prefill chunk, which bounds the time that decodes of the same step wait
 */
public record Budget(int maxBatchTokens, int maxSequences, int maxChunkTokens) {
    /** Checks the bounds. */
    public Budget {
        if (maxSequences < 1 || maxChunkTokens < 1 || maxBatchTokens < maxSequences) {
            throw new ConfigurationException(
                    "--max-num-batched-tokens " + maxBatchTokens + ", --max-num-seqs " + maxSequences
                            + " and --max-prefill-chunk "
                            + maxChunkTokens
                            + ": each must be at least 1, and --max-num-batched-tokens at least --max-num-seqs");
        }
    }
}
