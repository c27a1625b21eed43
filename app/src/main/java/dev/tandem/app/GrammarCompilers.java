package dev.tandem.app;

import dev.tandem.engine.request.RequestException;
import dev.tandem.grammar.GrammarCompiler;
import dev.tandem.grammar.GrammarException;
import dev.tandem.grammar.GrammarSource;
import dev.tandem.grammar.LlguidanceCompiler;
import dev.tandem.grammar.LlguidanceFinder;
import dev.tandem.text.Tokenizer;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;

/**
 * The model's grammar compiler, made for the first request that needs it: a server that serves none starts sooner.
 * While llguidance is being built such requests are refused, and served as soon as it is there.
 *
 * <p>Owned by: any thread. Close it after the engine, which ends the matchers.
 */
final class GrammarCompilers implements GrammarCompiler, AutoCloseable {
    private static final String REMEDY = "; leave the grammar out";

    private final Optional<Tokenizer> tokenizer;
    private final Set<Integer> ends;
    private final Supplier<LlguidanceFinder.Result> llguidance;
    private final int busyThreads;
    private Optional<GrammarCompiler> compiler = Optional.empty();

    /** @param busyThreads that the executor keeps busy */
    GrammarCompilers(
            Optional<Tokenizer> tokenizer,
            Set<Integer> ends,
            Supplier<LlguidanceFinder.Result> llguidance,
            int busyThreads) {
        this.tokenizer = tokenizer;
        this.ends = ends;
        this.llguidance = llguidance;
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
        return switch (llguidance.get()) {
            case LlguidanceFinder.Found(var library) -> {
                try {
                    yield new LlguidanceCompiler(library, tokenizer.get(), ends, busyThreads);
                } catch (GrammarException e) {
                    yield GrammarCompiler.unavailable(e.getMessage() + REMEDY);
                }
            }
            case LlguidanceFinder.BeingBuilt() ->
                // not a compiler to keep: the next request looks again
                throw RequestException.of(
                        RequestException.Category.UNAVAILABLE,
                        "llguidance, which constrains output, is still being built; try again in a minute, or leave"
                                + " the grammar out");
            case LlguidanceFinder.Missing(String reason) ->
                // nor is this: another start may build it
                throw RequestException.of(
                        RequestException.Category.NOT_IMPLEMENTED,
                        "this server cannot constrain output: " + reason
                                + "; install cargo (Rust 1.87 or newer) and build it again, or leave the grammar out");
        };
    }

    @Override
    public synchronized void close() {
        if (compiler.isPresent() && compiler.get() instanceof LlguidanceCompiler open) {
            open.close();
        }
    }
}
