package dev.tandem.grammar;

import dev.tandem.engine.sampling.GrammarMatcher;
import java.lang.foreign.MemorySegment;
import java.util.Set;
import java.util.concurrent.Executor;

/**
 * A grammar of llguidance: a matcher at its start, of which each request receives a copy, with its own copy of the
 * library's caches.
 */
final class LlguidanceGrammar implements GrammarCompiler.Compiled {
    private final Llguidance library;
    private final ByteTokenizer text;
    private final int vocabulary;
    private final Set<Integer> ends;
    private final Executor moves;
    private final Executor bitmasks;
    /** NULL once closed. */
    private MemorySegment start;

    LlguidanceGrammar(
            Llguidance library,
            ByteTokenizer text,
            MemorySegment start,
            int vocabulary,
            Set<Integer> ends,
            Executor moves,
            Executor bitmasks) {
        this.library = library;
        this.text = text;
        this.start = start;
        this.vocabulary = vocabulary;
        this.ends = ends;
        this.moves = moves;
        this.bitmasks = bitmasks;
    }

    @Override
    public synchronized GrammarMatcher matcher() {
        if (start.equals(MemorySegment.NULL)) {
            throw new IllegalStateException("the grammar is closed; it makes no further matchers");
        }
        return new LlguidanceMatcher(library, text, library.cloneMatcher(start), vocabulary, ends, moves, bitmasks);
    }

    @Override
    public synchronized void close() {
        if (!start.equals(MemorySegment.NULL)) {
            library.freeMatcher(start);
            start = MemorySegment.NULL;
        }
    }
}
