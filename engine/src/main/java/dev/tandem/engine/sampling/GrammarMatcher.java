package dev.tandem.engine.sampling;

/**
 * Follows one output through its grammar and says which tokens may come next.
 *
 * <p>A matcher that fails does so for its own request alone: it allows every token, and {@link #accept} then throws.
 *
 * <p>Owned by: the sampler of one sequence. A matcher may work on threads of its own; its methods wait for that.
 */
public interface GrammarMatcher {
    /** Words of 32 bits that hold one bit per token. */
    static int words(int vocabulary) {
        return (vocabulary + 31) / 32;
    }

    /**
     * Whether a token may come next; what its bit of the bitmask says. Where the answer is yes, this is much cheaper
     * than the bitmask.
     */
    boolean allows(int token);

    /** Lets a thread compute the next bitmask, for a caller that needs it later and has other work until then. */
    default void prepareBitmask() {}

    /**
     * Waits until threads have computed what they were asked for, so that no method waits for them.
     *
     * @param maxNanos max time to wait; with 0 it only asks
     * @return false when the time did not suffice
     */
    default boolean awaitReady(long maxNanos) {
        return true;
    }

    /**
     * Writes which tokens may come next.
     *
     * @param bitmask receives in bit {@code token % 32} of word {@code token / 32} whether the token is allowed; at
     *     least {@link #words} of the model's vocabulary, all of which are overwritten
     */
    void fillBitmask(int[] bitmask);

    /**
     * Moves on by a token of the output.
     *
     * @throws SamplingException when the grammar does not allow the token, or the matcher has failed
     */
    void accept(int token);

    /**
     * Moves on by the tokens that every output continues with here, and returns them in order. Without this call, each
     * of them is the only token that the bitmasks allow.
     *
     * @return empty where there is a choice, or where the matcher does not look ahead
     */
    default int[] acceptForced() {
        return new int[0];
    }

    /** Frees native memory. Afterwards every token is allowed and accepted; to close it again has no effect. */
    void close();
}
