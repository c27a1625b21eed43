package dev.tandem.text;

import java.util.Map;
import tools.jackson.databind.JsonNode;

/**
 * How long a text may be, so that the library, native code that ends the process where it fails, cannot fail on it. The
 * limits follow from the patterns of the tokenizer's file; see {@link RegexBacktracking}.
 *
 * @param maxAscii characters of a text that is all ASCII
 * @param maxOther UTF-16 characters of a text without any ASCII; of a mixed text, both parts' shares count
 */
record TokenizerLimits(int maxAscii, int maxOther) {
    /** The pattern that the library's {@code ByteLevel} splits by, if its file does not say otherwise. */
    static final String BYTE_LEVEL =
            "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    /** Of a tokenizer without patterns. */
    static final TokenizerLimits NONE = new TokenizerLimits(Integer.MAX_VALUE, Integer.MAX_VALUE);

    /** Unicode's bounds on the growth of a text, in UTF-16: "Normalization Forms", and of lower case. */
    private static final Map<String, Integer> GROWTH =
            Map.of("NFC", 3, "NFD", 4, "NFKC", 18, "NFKD", 18, "Lowercase", 3, "BertNormalizer", 12);
    /** A byte-level text has a character for each byte, of which UTF-8 has at most 3 for each UTF-16 character. */
    private static final int BYTES = 3;

    private static final int MAX_GROWTH = 1_000;

    /** Of a tokenizer that splits a text as it is. */
    static TokenizerLimits ofPattern(String pattern) {
        int max = RegexBacktracking.of(pattern).maxCharacters();
        return new TokenizerLimits(max, max);
    }

    /**
     * @param root of {@code tokenizer.json}, which {@link TokenizerChecks} let pass
     * @throws TokenizerException when a text exists on which the library might end the process however short it is
     */
    static TokenizerLimits of(JsonNode root) {
        Reader reader = new Reader();
        reader.read(root.path("normalizer"));
        reader.read(root.path("pre_tokenizer"));
        // patterns that are not run are compiled nevertheless
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

    /** Follows the steps in their order. */
    private static final class Reader {
        int maxAscii = Integer.MAX_VALUE;
        int maxOther = Integer.MAX_VALUE;
        /** How many characters one may have become by the step that is read. */
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
                    grow(1, BYTES);
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
