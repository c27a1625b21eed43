package dev.tandem.engine.schedule;

import dev.tandem.engine.config.ConfigurationException;

/**
 * What one step may hold.
 *
 * @param maxBatchTokens rows of all sequences together
 * @param maxSequences sequences running at the same time
 * @param maxChunkTokens rows of one prefill chunk, so that decoding neighbours are not held up for long
 */
public record Budget(int maxBatchTokens, int maxSequences, int maxChunkTokens) {
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
