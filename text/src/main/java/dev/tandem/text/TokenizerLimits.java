package dev.tandem.text;

import java.util.Map;
import tools.jackson.databind.JsonNode;

/**
 * The max length of a text that the tokenizer's native library encodes safely; a failure in it ends the process. The
 * limits follow from the regex patterns in the tokenizer's file; see {@link RegexBacktracking}.
 *
 * @param maxAscii max characters of a text that is all ASCII
 * @param maxOther max UTF-16 characters of a text without ASCII; in a mixed text, the used fractions of both limits are
 *     added
 */
record TokenizerLimits(int maxAscii, int maxOther) {
    /** The pattern by which the library's {@code ByteLevel} splits text, unless {@code use_regex} is false. */
    static final String BYTE_LEVEL =
            "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    /** The limits of a tokenizer without patterns. */
    static final TokenizerLimits NONE = new TokenizerLimits(Integer.MAX_VALUE, Integer.MAX_VALUE);

    /** Max growth of a text in UTF-16, by Unicode's tables for normalization forms and lower case. */
    private static final Map<String, Integer> GROWTH =
            Map.of("NFC", 3, "NFD", 4, "NFKC", 18, "NFKD", 18, "Lowercase", 3, "BertNormalizer", 12);
    /** A byte-level text has one character per byte, and UTF-8 has at most 3 bytes per UTF-16 character. */
    private static final int BYTE_LEVEL_GROWTH = 3;

    private static final int MAX_GROWTH = 1_000;

    /** The limits of a tokenizer that splits the unchanged text by one pattern. */
    static TokenizerLimits ofPattern(String pattern) {
        int max = RegexBacktracking.of(pattern).maxCharacters();
        return new TokenizerLimits(max, max);
    }

    /**
     * @param root of a {@code tokenizer.json} that {@link TokenizerChecks} accepted
     * @throws TokenizerException when no limit is safe: even a short text might end the process
     */
    static TokenizerLimits of(JsonNode root) {
        Reader reader = new Reader();
        reader.read(root.path("normalizer"));
        reader.read(root.path("pre_tokenizer"));
        // these patterns never run, but they are compiled and must be valid
        Reader unused = new Reader();
        unused.read(root.path("post_processor"));
        unused.read(root.path("decoder"));
        return new TokenizerLimits(reader.maxAscii, reader.maxOther);
    }

    /** @throws TokenizerException when the text is too long */
    void check(String text) {
        if (text.length() <= Math.min(maxAscii, maxOther)) {
            return;
        }
        long other = text.chars().filter(c -> c >= 128).count();
        long ascii = text.length() - other;
        if ((double) ascii / maxAscii + (double) other / maxOther > 1) {
            throw new TokenizerException("the text has " + ascii + " characters of ASCII and " + other
                    + " others; the tokenizer takes at most " + maxAscii + " of ASCII, or " + maxOther
                    + " others, at once");
        }
    }

    /** Applies the tokenizer's steps in order. */
    private static final class Reader {
        int maxAscii = Integer.MAX_VALUE;
        int maxOther = Integer.MAX_VALUE;
        /** Max characters that one input character has become before the current step. */
        long asciiGrowth = 1;

        long otherGrowth = 1;

        void read(JsonNode step) {
            JsonNode regex = step.path("pattern").path("Regex");
            if (regex.isString()) {
                splitBy(regex.stringValue());
            }
            for (String steps : new String[] {"normalizers", "pretokenizers", "processors", "decoders"}) {
                step.path(steps).forEach(this::read);
            }
            String type = step.path("type").asString("");
            switch (type) {
                case "ByteLevel" -> {
                    if (step.path("use_regex").asBoolean(true)) {
                        splitBy(BYTE_LEVEL);
                    }
                    grow(1, BYTE_LEVEL_GROWTH);
                }
                case "Replace" -> grow(1 + lengthOf(step.path("content")), 1 + lengthOf(step.path("content")));
                case "Prepend" -> grow(1 + lengthOf(step.path("prepend")), 1 + lengthOf(step.path("prepend")));
                default -> grow(1, GROWTH.getOrDefault(type, 1));
            }
        }

        private void splitBy(String pattern) {
            int max = RegexBacktracking.of(pattern).maxCharacters();
            maxAscii = (int) Math.min(maxAscii, max / asciiGrowth);
            maxOther = (int) Math.min(maxOther, max / otherGrowth);
        }

        private static int lengthOf(JsonNode text) {
            return text.isString() ? text.stringValue().length() : 0;
        }

        private void grow(int ascii, int other) {
            asciiGrowth *= ascii;
            otherGrowth *= other;
            if (asciiGrowth > MAX_GROWTH || otherGrowth > MAX_GROWTH) {
                throw new TokenizerException("its steps make a text more than " + MAX_GROWTH + " times as long");
            }
        }
    }
}
