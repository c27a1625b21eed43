package dev.tandem.engine.sampling;

/**
 * What the output of a request must match, compiled.
 *
 * <p>Owned by: any thread.
 */
public interface Grammar {
    /** A new matcher at the start of an output; the caller closes it. */
    GrammarMatcher matcher();

    /** Whether it alone knows where an output may end, so that the request cannot demand more tokens. */
    default boolean decidesEnd() {
        return true;
    }
}
