package dev.tandem.cuda.forward;

import dev.tandem.cuda.kernels.KernelConstants;

/**
 * GPU addresses of what is read and written to score the rows of prompts in a sub-batch.
 *
 * @param rows [count] their rows in the sub-batch
 * @param targets [count] pairs of the token that follows each and the number of alternatives
 * @param scores [count][{@link KernelConstants#SCORE_WORDS}] results
 * @param count rows that are scored
 */
public record ScoredRows(long rows, long targets, long scores, int count) {
    /** No row is scored. */
    public static final ScoredRows NONE = new ScoredRows(0, 0, 0, 0);

    /** Some of these rows, from the {@code first}-th on. */
    public ScoredRows part(int first, int some) {
        return new ScoredRows(
                rows + 4L * first, targets + 8L * first, scores + 4L * KernelConstants.SCORE_WORDS * first, some);
    }
}
