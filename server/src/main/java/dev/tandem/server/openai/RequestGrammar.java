package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.Grammar;
import dev.tandem.engine.sampling.TokenMask;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarException;
import java.util.Optional;

/**
 * The compiled grammar of one HTTP request, if it has one; the choices share it. Closing frees it.
 *
 * <p>Owned by: the request's virtual thread. It waits while other threads compile, so that no thread that tokenizes is
 * kept.
 */
final class RequestGrammar implements AutoCloseable {
    private final Optional<GrammarCompiler.Compiled> grammar;

    private RequestGrammar(Optional<GrammarCompiler.Compiled> grammar) {
        this.grammar = grammar;
    }

    /** @throws RequestException when the grammar is refused, or the server cannot compile grammars */
    static RequestGrammar compile(GrammarCompiler compiler, Optional<GrammarFields.Constraint> constraint) {
        try {
            return new RequestGrammar(constraint.map(c -> compiler.compile(c.source())));
        } catch (GrammarException e) {
            throw GrammarFields.refused(constraint.orElseThrow().field(), e);
        }
    }

    /** The parameters with the grammar. */
    SamplingParams constrain(SamplingParams sampling) {
        if (grammar.isEmpty()) {
            return sampling;
        }
        Grammar compiled = grammar.get();
        return sampling.withGrammar(
                sampling.grammar().orElse(compiled) instanceof TokenMask mask ? mask.over(compiled) : compiled);
    }

    @Override
    public void close() {
        grammar.ifPresent(GrammarCompiler.Compiled::close);
    }
}
