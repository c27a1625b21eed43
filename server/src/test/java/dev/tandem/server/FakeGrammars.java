package dev.tandem.server;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.RandomGrammar;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** Compiles every grammar whose text does not contain "refused", and notes what it compiled. */
final class FakeGrammars implements GrammarCompiler {
    final List<GrammarSource> compiled = new CopyOnWriteArrayList<>();
    /** Grammars that are not closed. */
    final AtomicInteger open = new AtomicInteger();

    /** Why there is no compiler; empty when there is one. */
    volatile String missing = "";

    /** Whether the compiler is still being built. */
    volatile boolean building;

    /** Waits until all grammars are closed: an answer comes before. One that is not fails the test by its timeout. */
    void awaitClosed() {
        while (open.get() > 0) {
            Thread.onSpinWait();
        }
    }

    @Override
    public Compiled compile(GrammarSource source) {
        if (building) {
            throw RequestException.of(RequestException.Category.UNAVAILABLE, "it is still being built; try again");
        }
        if (!missing.isEmpty()) {
            return GrammarCompiler.unavailable(missing).compile(source);
        }
        if (source.text().contains("refused")) {
            throw new GrammarException("it has the word\nrefused");
        }
        compiled.add(source);
        open.incrementAndGet();
        RandomGrammar everything = new RandomGrammar(1, 1000);
        return new Compiled() {
            @Override
            public GrammarMatcher matcher() {
                return everything.matcher();
            }

            @Override
            public void close() {
                open.decrementAndGet();
            }
        };
    }
}
