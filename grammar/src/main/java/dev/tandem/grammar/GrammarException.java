package dev.tandem.grammar;

/** A grammar that cannot be compiled: it is malformed, uses what is not supported, or exceeds a limit. */
public final class GrammarException extends RuntimeException {
    /** The message says what is wrong with the grammar. */
    public GrammarException(String message) {
        super(message);
    }
}
