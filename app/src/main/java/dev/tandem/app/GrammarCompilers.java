package dev.tandem.app;

import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.Llguidance;
import dev.tandem.grammar.LlguidanceCompiler;
import dev.tandem.text.Tokenizer;
import java.util.Optional;
import java.util.Set;

/**
 * The model's grammar compiler, made for the first request that needs it: a server that serves none starts sooner.
 *
 * <p>Owned by: any thread. Close it after the engine, which ends the matchers.
 */
final class GrammarCompilers implements GrammarCompiler, AutoCloseable {
    private static final String REMEDY = "; leave the grammar out";

    private final Optional<Tokenizer> tokenizer;
    private final Set<Integer> ends;
    private final int busyThreads;
    private Optional<GrammarCompiler> compiler = Optional.empty();

    /** @param busyThreads that the executor keeps busy */
    GrammarCompilers(Optional<Tokenizer> tokenizer, Set<Integer> ends, int busyThreads) {
        this.tokenizer = tokenizer;
        this.ends = ends;
        this.busyThreads = busyThreads;
    }

    @Override
    public Compiled compile(GrammarSource source) {
        return compiler().compile(source);
    }

    private synchronized GrammarCompiler compiler() {
        if (compiler.isEmpty()) {
            compiler = Optional.of(make());
        }
        return compiler.get();
    }

    private GrammarCompiler make() {
        if (tokenizer.isEmpty() || ends.isEmpty()) {
            return GrammarCompiler.unavailable("the model has no "
                    + (ends.isEmpty() ? "end-of-sequence token" : "tokenizer")
                    + ", so its output cannot be constrained" + REMEDY);
        }
        if (Llguidance.find().isEmpty()) {
            return GrammarCompiler.unavailable("this server cannot constrain output: " + Llguidance.reason()
                    + "; install cargo (Rust 1.87 or newer) and build it again, or leave the grammar out");
        }
        try {
            return new LlguidanceCompiler(Llguidance.find().get(), tokenizer.get(), ends, busyThreads);
        } catch (GrammarException e) {
            return GrammarCompiler.unavailable(e.getMessage() + REMEDY);
        }
    }

    @Override
    public synchronized void close() {
        if (compiler.isPresent() && compiler.get() instanceof LlguidanceCompiler open) {
            open.close();
        }
    }
}
