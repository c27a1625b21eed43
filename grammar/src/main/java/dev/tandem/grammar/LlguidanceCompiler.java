package dev.tandem.grammar;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.text.Vocabulary;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Compiles grammars with llguidance. Its threads compute the matchers' bitmasks while steps run.
 *
 * <p>Closing it ends the threads and frees the vocabulary; every grammar and matcher must be closed before.
 *
 * <p>Owned by: any thread.
 */
public final class LlguidanceCompiler implements GrammarCompiler, AutoCloseable {
    /** Leaves the other cores to the engine. A bitmask takes some 50 us, a step of a GPU several ms. */
    private static final int CORES_PER_THREAD = 4;

    private static final int MAX_THREADS = 8;
    /** Characters of a grammar: the largest schemas of public collections have some 200,000. */
    public static final int MAX_CHARACTERS = 1 << 18;

    private static final byte SPECIAL = (byte) 0xFF;

    private final Llguidance library;
    private final MemorySegment tokenizer;
    private final int words;
    private final ExecutorService threads;

    /**
     * A compiler for a vocabulary.
     *
     * @param ends the model's end-of-sequence tokens, at least one
     * @throws GrammarException when the library refuses the vocabulary
     */
    public LlguidanceCompiler(Llguidance library, Vocabulary vocabulary, Collection<Integer> ends) {
        this.library = library;
        byte[][] tokens = new byte[vocabulary.size()][];
        for (int id = 0; id < tokens.length; id++) {
            tokens[id] = vocabulary.isSpecial(id) ? special(vocabulary.token(id)) : vocabulary.bytes(id);
        }
        this.tokenizer = library.newTokenizer(
                tokens, ends.stream().mapToInt(Integer::intValue).sorted().toArray());
        this.words = GrammarMatcher.words(tokens.length);
        int cores = Runtime.getRuntime().availableProcessors();
        this.threads = Executors.newFixedThreadPool(
                Math.clamp(cores / CORES_PER_THREAD, 1, MAX_THREADS),
                Thread.ofPlatform().daemon().name("tandem-grammar-", 0).factory());
    }

    private static byte[] special(String token) {
        byte[] name = token.getBytes(StandardCharsets.UTF_8);
        byte[] bytes = new byte[name.length + 1];
        bytes[0] = SPECIAL;
        System.arraycopy(name, 0, bytes, 1, name.length);
        return bytes;
    }

    @Override
    public Compiled compile(GrammarSource source) {
        int length = source.text().length();
        if (length > MAX_CHARACTERS) {
            throw new GrammarException(
                    "the grammar has " + length + " characters; the max is " + MAX_CHARACTERS + "; send a smaller one");
        }
        if (source.text().indexOf('\0') >= 0) {
            throw new GrammarException("the grammar contains the character NUL; leave it out");
        }
        return new LlguidanceGrammar(library, library.newMatcher(tokenizer, source), words, threads);
    }

    @Override
    public void close() {
        threads.close();
        library.freeTokenizer(tokenizer);
    }
}
