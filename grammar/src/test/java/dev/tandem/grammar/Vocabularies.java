package dev.tandem.grammar;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.text.Vocabulary;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.Set;
import java.util.SplittableRandom;

/** A vocabulary of all bytes, some longer pieces, and two end tokens; and random output over it. */
final class Vocabularies {
    static final int END = 256;
    static final int OTHER_END = 257;
    /** Pieces of JSON that cross the borders of grammar rules. */
    private static final String[] PIECES = {
        "{\"", "\":", "\",\"", "\": \"", "true", "false", "null", "}}", "]}", "\"}", ", ", "12", "name", "ab", "é",
        "\\u00"
    };

    static final Vocabulary BYTES = bytes();

    private Vocabularies() {}

    private static Vocabulary bytes() {
        String[] tokens = new String[258 + PIECES.length];
        BitSet special = new BitSet();
        BitSet literal = new BitSet();
        for (int b = 0; b < 256; b++) {
            tokens[b] = String.format("<0x%02X>", b);
        }
        tokens[END] = "<end>";
        tokens[OTHER_END] = "<turn>";
        special.set(END, OTHER_END + 1);
        literal.set(END, OTHER_END + 1);
        System.arraycopy(PIECES, 0, tokens, 258, PIECES.length);
        return new Vocabulary(tokens, special, literal, Vocabulary.Spelling.SENTENCE_PIECE);
    }

    /** A compiler over {@link #BYTES}; the test is skipped where the build has no llguidance. */
    static LlguidanceCompiler compiler() {
        assumeTrue(Llguidance.find().isPresent(), Llguidance.reason());
        return new LlguidanceCompiler(Llguidance.find().orElseThrow(), BYTES, Set.of(END, OTHER_END));
    }

    /** Random allowed tokens until an end token; at most {@code max} tokens, then an empty text. */
    static String random(GrammarCompiler.Compiled grammar, SplittableRandom random, int max) {
        GrammarMatcher matcher = grammar.matcher();
        int[] bitmask = new int[GrammarMatcher.words(BYTES.size())];
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        try {
            for (int i = 0; i < max; i++) {
                matcher.fillBitmask(bitmask);
                int[] allowed = BitSet.valueOf(longs(bitmask)).stream().toArray();
                int token = allowed[random.nextInt(allowed.length)];
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

    /** Whether the text, byte by byte, and then both end tokens are allowed. */
    static boolean accepts(GrammarCompiler.Compiled grammar, String text) {
        GrammarMatcher matcher = grammar.matcher();
        int[] bitmask = new int[GrammarMatcher.words(BYTES.size())];
        try {
            for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
                matcher.fillBitmask(bitmask);
                if (!isAllowed(bitmask, b & 0xFF)) {
                    return false;
                }
                matcher.accept(b & 0xFF);
            }
            matcher.fillBitmask(bitmask);
            return isAllowed(bitmask, END) && isAllowed(bitmask, OTHER_END);
        } finally {
            matcher.close();
        }
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
