package dev.tandem.grammar;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.text.Vocabulary;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/** A vocabulary of all bytes, some longer pieces, and two end tokens; and random output over it. */
final class Vocabularies {
    static final int END = 256;
    static final int OTHER_END = 257;
    /** Two further special tokens. */
    static final int MARKER = 258;

    static final int OTHER_MARKER = 259;
    /** Pieces of JSON that cross the borders of grammar rules. */
    private static final String[] PIECES = {
        "{\"", "\":", "\",\"", "\": \"", "true", "false", "null", "}}", "]}", "\"}", ", ", "12", "name", "ab", "é",
        "\\u00"
    };

    static final Vocabulary BYTES = bytes();

    private Vocabularies() {}

    private static Vocabulary bytes() {
        String[] tokens = new String[260 + PIECES.length];
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
        System.arraycopy(PIECES, 0, tokens, 260, PIECES.length);
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

    /** Whether the text, byte by byte but for the two markers, and then both end tokens are allowed. */
    static boolean accepts(GrammarCompiler.Compiled grammar, String text) {
        GrammarMatcher matcher = grammar.matcher();
        int[] bitmask = new int[GrammarMatcher.words(BYTES.size())];
        try {
            for (int token : tokens(text)) {
                matcher.fillBitmask(bitmask);
                if (!isAllowed(bitmask, token)) {
                    return false;
                }
                matcher.accept(token);
            }
            matcher.fillBitmask(bitmask);
            return isAllowed(bitmask, END) && isAllowed(bitmask, OTHER_END);
        } finally {
            matcher.close();
        }
    }

    private static int[] tokens(String text) {
        IntStream.Builder tokens = IntStream.builder();
        for (int i = 0; i < text.length(); ) {
            int marker = text.startsWith(BYTES.token(MARKER), i)
                    ? MARKER
                    : text.startsWith(BYTES.token(OTHER_MARKER), i) ? OTHER_MARKER : -1;
            if (marker >= 0) {
                tokens.add(marker);
                i += BYTES.token(marker).length();
            } else {
                int end = text.offsetByCodePoints(i, 1);
                for (byte b : text.substring(i, end).getBytes(StandardCharsets.UTF_8)) {
                    tokens.add(b & 0xFF);
                }
                i = end;
            }
        }
        return tokens.build().toArray();
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
