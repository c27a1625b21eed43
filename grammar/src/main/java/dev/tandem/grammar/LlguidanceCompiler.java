package dev.tandem.grammar;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Compiles grammars with llguidance. Its threads compute the matchers' bitmasks while steps run.
 *
 * <p>The library recurses over what clients send, and an overflow of the stack ends the process: grammars are bounded
 * and their threads have large stacks. The library bounds the work of lexers and parsers but not that of some JSON
 * schemas, and it cannot be interrupted: a grammar that takes too long keeps its thread until it is done.
 *
 * <p>Closing it ends the threads and frees the vocabulary; every grammar and matcher must be closed before.
 *
 * <p>Owned by: any thread.
 */
public final class LlguidanceCompiler implements GrammarCompiler, AutoCloseable {
    /** Leaves the other cores to the engine, whatever it uses. */
    private static final int CORES_PER_THREAD = 4;

    private static final int MAX_COMPILATIONS = 8;
    /** Of the engine thread and the event loops. */
    private static final int OTHER_THREADS = 2;
    /**
     * For bitmasks. Those of 32 requests for the expression in {@code docs/results/grammar.jsonl} take 13 ms of CPU
     * time, so 16 threads compute them within a step of 1 ms.
     */
    private static final int MAX_BITMASK_THREADS = 16;
    /**
     * Of a grammar. With as many, an object of 2,500 properties compiles in 1.5 s, and four times as many take 20 s.
     */
    public static final int MAX_CHARACTERS = 1 << 16;

    /** Of one grammar; most compile in a few ms. */
    public static final Duration MAX_TIME = Duration.ofSeconds(5);

    /** Reserved, not used: with 1 MiB, an object of 4,000 properties overflows the stack, with 8 MiB 10,000 do not. */
    private static final long STACK_BYTES = 64 << 20;

    private static final byte SPECIAL = (byte) 0xFF;

    private final Llguidance library;
    private final ByteTokenizer text;
    /** Of the function that the library calls to tokenize. */
    private final Arena upcalls = Arena.ofShared();

    private final MemorySegment tokenizer;
    private final int vocabularySize;
    private final Set<Integer> ends;
    private final ExecutorService moves;
    private final ExecutorService bitmasks;
    private final int compilations;
    /** One permit per compilation at a time. */
    private final Semaphore compiling;

    private final Duration limit;

    /**
     * A compiler for a model's tokens.
     *
     * @param source tokenizes what grammars force; it must stay open
     * @param ends the model's end-of-sequence tokens, at least one
     * @param busyThreads that the executor keeps busy; the cores that they leave compute bitmasks
     * @throws GrammarException when the library refuses the vocabulary
     */
    public LlguidanceCompiler(Llguidance library, Tokenizer source, Set<Integer> ends, int busyThreads) {
        this(library, source, ends, busyThreads, MAX_TIME);
    }

    LlguidanceCompiler(Llguidance library, Tokenizer source, Set<Integer> ends, int busyThreads, Duration limit) {
        this.library = library;
        this.text = new ByteTokenizer(source);
        Vocabulary vocabulary = source.vocabulary();
        byte[][] tokens = new byte[vocabulary.size()][];
        for (int id = 0; id < tokens.length; id++) {
            tokens[id] = vocabulary.isSpecial(id) ? special(vocabulary.token(id)) : vocabulary.bytes(id);
        }
        this.tokenizer = library.newTokenizer(
                tokens, ends.stream().mapToInt(Integer::intValue).sorted().toArray(), text, upcalls);
        this.vocabularySize = tokens.length;
        this.ends = Set.copyOf(ends);
        this.limit = limit;
        int cores = Runtime.getRuntime().availableProcessors();
        this.compilations = Math.clamp(cores / CORES_PER_THREAD, 1, MAX_COMPILATIONS);
        this.compiling = new Semaphore(compilations);
        this.moves = threads(compilations, "tandem-grammar-move-");
        this.bitmasks = threads(bitmaskThreads(cores, busyThreads), "tandem-grammar-bitmask-");
    }

    /** As many as are compilations at least, because the executor may be idle. */
    static int bitmaskThreads(int cores, int busyThreads) {
        int idle = cores - busyThreads - OTHER_THREADS;
        return Math.clamp(Math.max(idle, cores / CORES_PER_THREAD), 1, MAX_BITMASK_THREADS);
    }

    /** Starts all threads at once: one that the engine thread started would be bound to the engine's core. */
    private static ExecutorService threads(int count, String name) {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(
                count,
                count,
                0,
                TimeUnit.SECONDS,
                new LinkedBlockingQueue<>(),
                thread(name).factory());
        pool.prestartAllCoreThreads();
        return pool;
    }

    private static Thread.Builder.OfPlatform thread(String name) {
        return Thread.ofPlatform().daemon().name(name, 0).stackSize(STACK_BYTES);
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
        try {
            if (!compiling.tryAcquire(limit.toNanos(), TimeUnit.NANOSECONDS)) {
                throw RequestException.of(
                        RequestException.Category.OVERLOADED,
                        "other grammars are being compiled, " + compilations + " at a time; try again later");
            }
            CompletableFuture<MemorySegment> start = new CompletableFuture<>();
            thread("tandem-grammar-compile-").start(() -> compile(source, start));
            return new LlguidanceGrammar(library, text, await(start), vocabularySize, ends, moves, bitmasks);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw RequestException.of(RequestException.Category.UNAVAILABLE, "the server is shutting down");
        }
    }

    /** Completes the future with a matcher at its start, whose first bitmask has been computed as a check. */
    private void compile(GrammarSource source, CompletableFuture<MemorySegment> result) {
        try {
            MemorySegment start = library.newMatcher(tokenizer, source, GrammarMatcher.words(vocabularySize));
            if (!result.complete(start)) {
                library.freeMatcher(start); // too late
            }
        } catch (RuntimeException | Error e) {
            result.completeExceptionally(e);
        } finally {
            compiling.release();
        }
    }

    private MemorySegment await(CompletableFuture<MemorySegment> start) throws InterruptedException {
        try {
            return start.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            GrammarException late = new GrammarException(
                    "the grammar does not compile within " + limit.toMillis() + " ms; send a simpler one");
            if (start.completeExceptionally(late)) {
                throw late;
            }
            return start.join();
        } catch (ExecutionException e) {
            switch (e.getCause()) {
                case GrammarException cause -> throw new GrammarException(String.valueOf(cause.getMessage()));
                case null, default -> throw new CompletionException(e.getCause());
            }
        }
    }

    @Override
    public void close() {
        moves.close();
        bitmasks.close();
        if (compiling.tryAcquire(compilations)) { // else a compilation that took too long still reads it
            library.freeTokenizer(tokenizer);
            upcalls.close();
        }
    }
}
