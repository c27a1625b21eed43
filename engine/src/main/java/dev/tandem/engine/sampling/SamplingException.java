package dev.tandem.engine.sampling;

/**
 * One sequence's logits allow no choice of a token: they hold NaN, or all tokens are impossible.
 *
 * <p>The executor reports the sequence as lost and continues with the others.
 */
public final class SamplingException extends RuntimeException {
    /** Creates an exception whose message is for the client. */
    public SamplingException(String message) {
        super(message);
    }
}
