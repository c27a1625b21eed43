package dev.tandem.grammar;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BOOLEAN;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Optional;

/**
 * The C API of llguidance 1.9 ({@code llguidance.h}), from the shared library of {@code src/main/native}, which
 * {@link LlguidanceFinder} finds. Handles are addresses, which the caller frees.
 *
 * <p>Owned by: any thread; a matcher is used by one thread at a time.
 */
public final class Llguidance {
    private static final Logger LOG = System.getLogger(Llguidance.class.getName());
    private static final int MAX_MESSAGE = 1000;
    /** Ten times the library's default, which choices of 2,000 texts and objects of 500 properties exceed. */
    private static final long MAX_ITEMS = 20_000;
    /** A fifth of the library's default: a state takes up to 2 kB, so that a grammar takes at most 100 MB. */
    private static final long MAX_LEXER_STATES = 50_000;

    /** {@code LlgTokenizerInitV2} on machines of 64 bits. */
    private static final MemoryLayout TOKENIZER_INIT = MemoryLayout.structLayout(
            JAVA_LONG.withName("struct_size"),
            JAVA_INT.withName("vocab_size"),
            JAVA_INT.withName("tok_eos"),
            ADDRESS.withName("token_lens"),
            ADDRESS.withName("token_bytes"),
            ADDRESS.withName("tokenizer_json"),
            JAVA_BOOLEAN.withName("tokenize_assumes_string"),
            MemoryLayout.paddingLayout(7),
            ADDRESS.withName("tokenize_fn"),
            JAVA_BOOLEAN.withName("use_approximate_greedy_tokenize_fn"),
            MemoryLayout.paddingLayout(7),
            ADDRESS.withName("tokenize_user_data"),
            ADDRESS.withName("slices"),
            ADDRESS.withName("tok_eos_extra"),
            JAVA_INT.withName("tok_eos_extra_count"),
            MemoryLayout.paddingLayout(4));

    /** {@code LlgConstraintInit} on machines of 64 bits. */
    private static final MemoryLayout CONSTRAINT_INIT = MemoryLayout.structLayout(
            ADDRESS.withName("tokenizer"),
            JAVA_INT.withName("log_buffer_level"),
            JAVA_INT.withName("log_stderr_level"),
            JAVA_BOOLEAN.withName("ff_tokens_ok"),
            JAVA_BOOLEAN.withName("backtrack_ok"),
            MemoryLayout.paddingLayout(6),
            JAVA_LONG.withName("max_items_in_row"),
            JAVA_LONG.withName("initial_lexer_fuel"),
            JAVA_LONG.withName("step_lexer_fuel"),
            JAVA_LONG.withName("step_max_items"),
            JAVA_LONG.withName("max_lexer_states"),
            JAVA_LONG.withName("max_grammar_size"),
            JAVA_BOOLEAN.withName("precompute_large_lexemes"),
            JAVA_BOOLEAN.withName("verbose_errors"),
            MemoryLayout.paddingLayout(6));

    /** Tokens that are taken at a time; further ones are the next time's. */
    private static final int MAX_FORCED = 512;

    private static final FunctionDescriptor TOKENIZE_TYPE =
            FunctionDescriptor.of(JAVA_LONG, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG);
    private static final MethodHandle TOKENIZE = tokenizeFunction();

    private static MethodHandle tokenizeFunction() {
        try {
            return MethodHandles.lookup()
                    .findStatic(
                            Llguidance.class,
                            "tokenize",
                            TOKENIZE_TYPE.toMethodType().insertParameterTypes(0, ByteTokenizer.class));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private final MethodHandle setDefaults;
    private final MethodHandle newTokenizer;
    private final MethodHandle freeTokenizer;
    private final MethodHandle newMatcher;
    private final MethodHandle cloneMatcher;
    private final MethodHandle freeMatcher;
    private final MethodHandle computeMask;
    private final MethodHandle validateTokens;
    private final MethodHandle consumeToken;
    private final MethodHandle forcedTokens;
    private final MethodHandle getError;

    private Llguidance(SymbolLookup symbols) {
        setDefaults = link(symbols, "llg_constraint_init_set_defaults", FunctionDescriptor.ofVoid(ADDRESS, ADDRESS));
        newTokenizer =
                link(symbols, "llg_new_tokenizer_v2", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, JAVA_LONG));
        freeTokenizer = link(symbols, "llg_free_tokenizer", FunctionDescriptor.ofVoid(ADDRESS));
        newMatcher = link(symbols, "llg_new_matcher", FunctionDescriptor.of(ADDRESS, ADDRESS, ADDRESS, ADDRESS));
        cloneMatcher = link(symbols, "llg_clone_matcher", FunctionDescriptor.of(ADDRESS, ADDRESS));
        freeMatcher = link(symbols, "llg_free_matcher", FunctionDescriptor.ofVoid(ADDRESS));
        computeMask = link(
                symbols, "llg_matcher_compute_mask_into", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG));
        validateTokens = link(
                symbols, "llg_matcher_validate_tokens", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG));
        consumeToken = link(symbols, "llg_matcher_consume_token", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT));
        forcedTokens = link(
                symbols, "llg_matcher_compute_ff_tokens", FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_LONG));
        getError = link(symbols, "llg_matcher_get_error", FunctionDescriptor.of(ADDRESS, ADDRESS));
    }

    private static MethodHandle link(SymbolLookup symbols, String name, FunctionDescriptor type) {
        return Linker.nativeLinker().downcallHandle(symbols.findOrThrow(name), type);
    }

    /**
     * Loads the library for the life of the process.
     *
     * @throws IllegalArgumentException when the file is no library for this machine
     * @throws java.util.NoSuchElementException when it lacks a function
     */
    static Llguidance load(Path file) {
        return new Llguidance(SymbolLookup.libraryLookup(file, Arena.global()));
    }

    /**
     * Creates a tokenizer from the bytes of each token.
     *
     * @param tokens by id; special tokens begin with byte 0xFF, tokens that are never allowed are empty
     * @param ends the model's end-of-sequence tokens, at least one
     * @param text tokenizes what a grammar forces, on any thread
     * @param lifetime at least that of the tokenizer
     * @throws GrammarException when the library refuses it
     */
    MemorySegment newTokenizer(byte[][] tokens, int[] ends, ByteTokenizer text, Arena lifetime) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment lengths = arena.allocateFrom(
                    JAVA_INT,
                    Arrays.stream(tokens).mapToInt(token -> token.length).toArray());
            MemorySegment bytes = arena.allocate(
                    Arrays.stream(tokens).mapToLong(token -> token.length).sum() + 1);
            long at = 0;
            for (byte[] token : tokens) {
                MemorySegment.copy(token, 0, bytes, JAVA_BYTE, at, token.length);
                at += token.length;
            }
            MemorySegment init = arena.allocate(TOKENIZER_INIT);
            set(init, TOKENIZER_INIT, "struct_size", TOKENIZER_INIT.byteSize());
            set(init, TOKENIZER_INIT, "vocab_size", tokens.length);
            set(init, TOKENIZER_INIT, "tok_eos", ends[0]);
            set(init, TOKENIZER_INIT, "token_lens", lengths);
            set(init, TOKENIZER_INIT, "token_bytes", bytes);
            set(init, TOKENIZER_INIT, "tokenize_assumes_string", true);
            set(
                    init,
                    TOKENIZER_INIT,
                    "tokenize_fn",
                    Linker.nativeLinker().upcallStub(TOKENIZE.bindTo(text), TOKENIZE_TYPE, lifetime));
            set(init, TOKENIZER_INIT, "tok_eos_extra", arena.allocateFrom(JAVA_INT, ends));
            set(init, TOKENIZER_INIT, "tok_eos_extra_count", ends.length);
            MemorySegment message = arena.allocate(MAX_MESSAGE);
            MemorySegment tokenizer = (MemorySegment) newTokenizer.invokeExact(init, message, (long) MAX_MESSAGE);
            if (tokenizer.equals(MemorySegment.NULL)) {
                throw new GrammarException("llguidance refuses the model's vocabulary: " + message.getString(0));
            }
            return tokenizer;
        } catch (Throwable e) {
            throw failed("llg_new_tokenizer_v2", e);
        }
    }

    /**
     * {@code LlgTokenizeFn}. An exception would end the process.
     *
     * @return the number of tokens; more than {@code max} asks for a longer {@code output}
     */
    @SuppressWarnings({"UnusedMethod", "UnusedVariable"}) // the library calls it, and passes the data
    private static long tokenize(
            ByteTokenizer tokenizer,
            MemorySegment data,
            MemorySegment text,
            long length,
            MemorySegment output,
            long max) {
        try {
            int[] tokens = tokenizer.encode(text.reinterpret(length).toArray(JAVA_BYTE));
            int count = (int) Math.min(tokens.length, max);
            MemorySegment.copy(tokens, 0, output.reinterpret(4L * count), JAVA_INT, 0, count);
            return tokens.length;
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "A text of a grammar cannot be tokenized; the grammar's requests fail.", e);
            return 0;
        }
    }

    void freeTokenizer(MemorySegment tokenizer) {
        try {
            freeTokenizer.invokeExact(tokenizer);
        } catch (Throwable e) {
            throw failed("llg_free_tokenizer", e);
        }
    }

    /**
     * Compiles a grammar. It computes the first bitmask too, which shows whether the parser's limits suffice.
     *
     * @param words of a bitmask
     * @throws GrammarException when the library refuses it
     */
    MemorySegment newMatcher(MemorySegment tokenizer, GrammarSource source, int words) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment init = arena.allocate(CONSTRAINT_INIT);
            setDefaults.invokeExact(init, tokenizer);
            set(init, CONSTRAINT_INIT, "log_buffer_level", 0);
            set(init, CONSTRAINT_INIT, "log_stderr_level", 0);
            set(init, CONSTRAINT_INIT, "max_items_in_row", MAX_ITEMS);
            set(init, CONSTRAINT_INIT, "max_lexer_states", MAX_LEXER_STATES);
            set(init, CONSTRAINT_INIT, "verbose_errors", false);
            MemorySegment matcher = (MemorySegment) newMatcher.invokeExact(
                    init, arena.allocateFrom(source.syntax().type), arena.allocateFrom(source.text()));
            if (error(matcher).isPresent() || !computeMask(matcher, arena.allocate(JAVA_INT, words))) {
                String error = error(matcher).orElse("llguidance gives no reason");
                freeMatcher(matcher);
                throw new GrammarException(error);
            }
            return matcher;
        } catch (Throwable e) {
            throw failed("llg_new_matcher", e);
        }
    }

    MemorySegment cloneMatcher(MemorySegment matcher) {
        try {
            return (MemorySegment) cloneMatcher.invokeExact(matcher);
        } catch (Throwable e) {
            throw failed("llg_clone_matcher", e);
        }
    }

    void freeMatcher(MemorySegment matcher) {
        try {
            freeMatcher.invokeExact(matcher);
        } catch (Throwable e) {
            throw failed("llg_free_matcher", e);
        }
    }

    /** Computes which tokens may come next; false when the matcher has failed. */
    boolean computeMask(MemorySegment matcher, MemorySegment bitmask) {
        try {
            return (int) computeMask.invokeExact(matcher, bitmask, bitmask.byteSize()) == 0;
        } catch (Throwable e) {
            throw failed("llg_matcher_compute_mask_into", e);
        }
    }

    /**
     * Whether the text may go on with a token's bytes; the matcher stays where it is. It is false for some tokens that
     * the bitmask has: special ones, and ends where the grammar allows nothing else.
     *
     * @param token of the vocabulary; any other fails the matcher
     */
    boolean validateToken(MemorySegment matcher, int token) {
        try (Arena arena = Arena.ofConfined()) {
            return (int) validateTokens.invokeExact(matcher, arena.allocateFrom(JAVA_INT, token), 1L) == 1;
        } catch (Throwable e) {
            throw failed("llg_matcher_validate_tokens", e);
        }
    }

    /** Moves on by a token; false when it does not fit or the matcher has failed. */
    boolean consumeToken(MemorySegment matcher, int token) {
        try {
            return (int) consumeToken.invokeExact(matcher, token) == 0;
        } catch (Throwable e) {
            throw failed("llg_matcher_consume_token", e);
        }
    }

    /** The tokens that every output continues with here, {@link #MAX_FORCED} at most; empty where there is a choice. */
    int[] forcedTokens(MemorySegment matcher) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment tokens = arena.allocate(JAVA_INT, MAX_FORCED);
            int count = (int) forcedTokens.invokeExact(matcher, tokens, (long) MAX_FORCED);
            return tokens.asSlice(0, 4L * Math.max(0, count)).toArray(JAVA_INT);
        } catch (Throwable e) {
            throw failed("llg_matcher_compute_ff_tokens", e);
        }
    }

    /** Why the matcher has failed. */
    Optional<String> error(MemorySegment matcher) {
        try {
            MemorySegment message = (MemorySegment) getError.invokeExact(matcher);
            return message.equals(MemorySegment.NULL)
                    ? Optional.empty()
                    : Optional.of(message.reinterpret(Long.MAX_VALUE).getString(0));
        } catch (Throwable e) {
            throw failed("llg_matcher_get_error", e);
        }
    }

    private static void set(MemorySegment struct, MemoryLayout layout, String field, Object value) {
        long at = layout.byteOffset(PathElement.groupElement(field));
        switch (value) {
            case Integer number -> struct.set(JAVA_INT, at, number);
            case Long number -> struct.set(JAVA_LONG, at, number);
            case Boolean flag -> struct.set(JAVA_BOOLEAN, at, flag);
            case MemorySegment address -> struct.set(ADDRESS, at, address);
            default -> throw new IllegalArgumentException("no field has the type of " + value);
        }
    }

    /** Rethrows errors and unchecked exceptions as they are; the library's functions throw nothing else. */
    private static IllegalStateException failed(String function, Throwable thrown) {
        switch (thrown) {
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> {
                return new IllegalStateException("the call of " + function + " failed", thrown);
            }
        }
    }
}
