package dev.tandem.grammar;

import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;

/**
 * Tokenizes text within an output: its tokens have exactly the bytes of the text, and none of them is special.
 *
 * <p>They are the tokens of the model's tokenizer where these have the text's bytes. Otherwise, as where the text
 * spells a special token, they are the longest tokens from left to right.
 *
 * <p>Owned by: any thread.
 */
final class ByteTokenizer {
    /**
     * Texts to put in front. Some tokenizers begin a text with a space, which must not come into the output; it then
     * comes before the control character, which the vocabularies have no longer token of.
     */
    private static final List<String> LEADS = List.of("", "\u0002");

    private final Tokenizer tokenizer;
    private final Vocabulary vocabulary;
    /** By the bytes, one character each; empty until a text needs it. */
    private Map<String, Integer> byBytes = Map.of();

    private int longest;
    private final Map<Integer, int[]> beginnings = new ConcurrentHashMap<>();

    ByteTokenizer(Tokenizer tokenizer) {
        this.tokenizer = tokenizer;
        this.vocabulary = tokenizer.vocabulary();
    }

    /** The tokens of a text. Bytes that no token has are left out; the matcher then refuses the tokens. */
    int[] encode(byte[] text) {
        for (String lead : LEADS) {
            int[] tokens;
            try {
                tokens = tokenizer.encode(lead + new String(text, StandardCharsets.UTF_8), false);
            } catch (RuntimeException e) { // too long for one call
                break;
            }
            int from = startOf(text, tokens);
            if (from >= 0) {
                return Arrays.copyOfRange(tokens, from, tokens.length);
            }
        }
        return longestTokens(text);
    }

    /**
     * Whether this is a token that was added to the vocabulary, and its spelling is text. The tokenizer finds it as a
     * whole, and the same text may also be written in other tokens.
     */
    boolean isAdded(int token) {
        return vocabulary.literal().get(token) && !vocabulary.isSpecial(token);
    }

    /** The tokens that an added token's text may begin with: the token itself and those of its first bytes. */
    int[] beginnings(int added) {
        return beginnings.computeIfAbsent(added, this::findBeginnings);
    }

    private int[] findBeginnings(int added) {
        byte[] text = vocabulary.bytes(added);
        return IntStream.range(0, vocabulary.size())
                .filter(id -> !vocabulary.isSpecial(id) && begins(text, vocabulary.bytes(id)))
                .toArray();
    }

    private static boolean begins(byte[] text, byte[] bytes) {
        int length = bytes.length;
        return length > 0 && length <= text.length && Arrays.equals(bytes, 0, length, text, 0, length);
    }

    /** The first of the last tokens that have exactly the text's bytes; negative where there are none. */
    private int startOf(byte[] text, int[] tokens) {
        int end = text.length;
        int from = tokens.length;
        while (end > 0 && from > 0) {
            int token = tokens[--from];
            byte[] bytes = vocabulary.bytes(token);
            int start = end - bytes.length;
            if (start < 0 || vocabulary.isSpecial(token) || !Arrays.equals(bytes, 0, bytes.length, text, start, end)) {
                return -1;
            }
            end = start;
        }
        return end == 0 ? from : -1;
    }

    private int[] longestTokens(byte[] bytes) {
        Map<String, Integer> ids = byBytes();
        String text = new String(bytes, StandardCharsets.ISO_8859_1);
        int[] tokens = new int[bytes.length];
        int count = 0;
        for (int at = 0; at < text.length(); ) {
            int end = Math.min(text.length(), at + longest);
            while (end > at && !ids.containsKey(text.substring(at, end))) {
                end--;
            }
            Integer token = ids.get(text.substring(at, end));
            if (token != null) {
                tokens[count++] = token;
            }
            at = Math.max(end, at + 1);
        }
        return Arrays.copyOf(tokens, count);
    }

    private synchronized Map<String, Integer> byBytes() {
        if (byBytes.isEmpty()) {
            Map<String, Integer> ids = new HashMap<>();
            for (int id = 0; id < vocabulary.size(); id++) {
                byte[] bytes = vocabulary.bytes(id);
                if (bytes.length > 0 && !vocabulary.isSpecial(id)) {
                    ids.putIfAbsent(new String(bytes, StandardCharsets.ISO_8859_1), id);
                    longest = Math.max(longest, bytes.length);
                }
            }
            byBytes = ids;
        }
        return byBytes;
    }
}
