package dev.tandem.bench.ideal;

/**
 * Bounds of a schedule's steps.
 *
 * @param maxTokenSeconds max seconds between two tokens of a sequence, on either tier; infinite for none
 * @param maxBatchTokens max tokens of a step
 * @param maxSequences max sequences that the GPU decodes in a step
 */
public record Bounds(double maxTokenSeconds, int maxBatchTokens, int maxSequences) {
    /** No bound of the time per token; steps of up to 8,192 tokens and 1,024 sequences. */
    public static final Bounds WIDE = new Bounds(Double.POSITIVE_INFINITY, 8192, 1024);

    /** These bounds with another max time per token. */
    public Bounds withMaxTokenSeconds(double seconds) {
        return new Bounds(seconds, maxBatchTokens, maxSequences);
    }
}
