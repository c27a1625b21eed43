package dev.tandem.grammar;

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
     */
    Compiled compile(GrammarSource source);
}
