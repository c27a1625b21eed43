package dev.tandem.grammar;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/** A vocabulary of all bytes, some longer pieces, an added token, and special ones; and random output over it. */
public final class Vocabularies {
    public static final int END = 256;
    public static final int OTHER_END = 257;
    /** Two further special tokens. */
    static final int MARKER = 258;

    static final int OTHER_MARKER = 259;
    /** Pieces of JSON that cross the borders of grammar rules. */
    private static final String[] PIECES = {
        "{\"", "\":", "\",\"", "\": \"", "true", "false", "null", "}}", "]}", "\"}", ", ", "12", "name", " name", "ab",
        "é", "\\u00"
    };

    /** A token that was added to the vocabulary, and is text. */
    static final int ADDED = 260 + PIECES.length;

    public static final Vocabulary BYTES = bytes();

    private Vocabularies() {}

    private static Vocabulary bytes() {
        String[] tokens = new String[ADDED + 1];
        BitSet special = new BitSet();
        BitSet literal = new BitSet();
        for (int b = 0; b < 256; b++) {
            tokens[b] = String.format("<0x%02X>", b);
        }
        tokens[END] = "<end>";
        tokens[OTHER_END] = "<turn>";
        tokens[MARKER] = "<|calls|>";
        tokens[OTHER_MARKER] = "<|over|>";
        special.set(END, OTHER_MARKER + 1);
        literal.set(END, OTHER_MARKER + 1);
        tokens[ADDED] = "<call>";
        literal.set(ADDED);
        System.arraycopy(PIECES, 0, tokens, 260, PIECES.length);
        return new Vocabulary(tokens, special, literal, Vocabulary.Spelling.SENTENCE_PIECE);
    }

    /** The longest tokens from left to right, special ones included. */
    static final Tokenizer TOKENIZER = new Tokenizer() {
        @Override
        public int[] encode(String text, boolean addSpecial) {
            byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
            int[] everything = new int[GrammarMatcher.words(BYTES.size())];
            Arrays.fill(everything, -1);
            IntStream.Builder tokens = IntStream.builder();
            for (int at = 0; at < bytes.length; ) {
                int token = longestAllowed(everything, bytes, at);
                tokens.add(token);
                at += spelling(token).length;
            }
            return tokens.build().toArray();
        }

        @Override
        public Vocabulary vocabulary() {
            return BYTES;
        }

        @Override
        public void close() {}
    };

    /** The library; the test is skipped where the build has none. */
    static Llguidance library() {
        LlguidanceFinder.Result result = LlguidanceFinder.ofProcess().find();
        assumeTrue(result instanceof LlguidanceFinder.Found, result::toString);
        return ((LlguidanceFinder.Found) result).library();
    }

    /** A compiler over {@link #BYTES}; the test is skipped where the build has no llguidance. */
    public static LlguidanceCompiler compiler() {
        return new LlguidanceCompiler(library(), TOKENIZER, Set.of(END, OTHER_END), 0);
    }

    /** Random allowed tokens until an end token; at most {@code max} tokens, then an empty text. */
    static String random(GrammarCompiler.Compiled grammar, SplittableRandom random, int max) {
        GrammarMatcher matcher = grammar.matcher();
        int[] bitmask = new int[GrammarMatcher.words(BYTES.size())];
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        try {
            for (int i = 0; i < max; i++) {
                matcher.fillBitmask(bitmask);
                int token = draw(bitmask, random);
                matcher.accept(token);
                if (token == END || token == OTHER_END) {
                    return text.toString(StandardCharsets.UTF_8);
                }
                text.writeBytes(BYTES.bytes(token));
            }
            return "";
        } finally {
            matcher.close();
        }
    }

    /** A random token that the bitmask allows. */
    static int draw(int[] bitmask, SplittableRandom random) {
        int[] allowed = BitSet.valueOf(longs(bitmask)).stream().toArray();
        return allowed[random.nextInt(allowed.length)];
    }

    /** Whether the text, in tokens that the bitmasks allow, and then both end tokens are allowed. */
    static boolean accepts(GrammarCompiler.Compiled grammar, String text) {
        GrammarMatcher matcher = grammar.matcher();
        int[] bitmask = new int[GrammarMatcher.words(BYTES.size())];
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        try {
            matcher.fillBitmask(bitmask);
            for (int at = 0; at < bytes.length; ) {
                int token = longestAllowed(bitmask, bytes, at);
                if (token < 0) {
                    return false;
                }
                at += spelling(token).length;
                matcher.accept(token);
                matcher.fillBitmask(bitmask);
            }
            return isAllowed(bitmask, END) && isAllowed(bitmask, OTHER_END);
        } finally {
            matcher.close();
        }
    }

    /** The longest allowed token that the bytes have at a place; negative where none is. */
    private static int longestAllowed(int[] bitmask, byte[] bytes, int at) {
        int longest = -1;
        for (int token = 0; token < BYTES.size(); token++) {
            byte[] spelling = spelling(token);
            boolean fits = at + spelling.length <= bytes.length
                    && Arrays.equals(bytes, at, at + spelling.length, spelling, 0, spelling.length);
            if (fits && isAllowed(bitmask, token) && (longest < 0 || spelling.length > spelling(longest).length)) {
                longest = token;
            }
        }
        return longest;
    }

    private static byte[] spelling(int token) {
        return BYTES.isSpecial(token) ? BYTES.token(token).getBytes(StandardCharsets.UTF_8) : BYTES.bytes(token);
    }

    static boolean isAllowed(int[] bitmask, int token) {
        return (bitmask[token / 32] >>> token & 1) == 1;
    }

    private static long[] longs(int[] words) {
        long[] longs = new long[(words.length + 1) / 2];
        for (int i = 0; i < words.length; i++) {
            longs[i / 2] |= (words[i] & 0xFFFF_FFFFL) << 32 * (i % 2);
        }
        return longs;
    }
}
