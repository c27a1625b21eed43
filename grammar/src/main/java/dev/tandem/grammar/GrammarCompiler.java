package dev.tandem.grammar;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.sampling.Grammar;

/**
 * Compiles grammars for the vocabulary of one model.
 *
 * <p>Owned by: any thread.
 */
public interface GrammarCompiler {
    /** A compiled grammar that holds native memory. */
    interface Compiled extends Grammar, AutoCloseable {
        /** Frees the memory; matchers that were made before go on. */
        @Override
        void close();
    }

    /**
     * Compiles a grammar; the caller closes it.
     *
     * @throws GrammarException when the grammar is malformed, uses what is not supported, or exceeds a limit
     * @throws RequestException when no grammar can be compiled, or not now
     */
    Compiled compile(GrammarSource source);

    /** Refuses every grammar, for the reason and with the remedy that the message gives. */
    static GrammarCompiler unavailable(String message) {
        return source -> {
            throw RequestException.of(RequestException.Category.NOT_IMPLEMENTED, message);
        };
    }
}
