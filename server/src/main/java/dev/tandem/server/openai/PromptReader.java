package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerException;
import dev.tandem.text.Vocabulary;
import java.util.Locale;

/**
 * Text to tokens, where text that cannot fit into the context is refused before it costs much.
 *
 * <p>Owned by: thread-safe.
 */
final class PromptReader {
    /** Twice what English text has per token: a prompt that fits is tokenized once. */
    private static final int PROBE_CHARACTERS_PER_TOKEN = 8;
    /** The word that a probe cuts through has a few tokens more than the whole word may have. */
    private static final int PROBE_SLACK = 64;

    /** Tokenizers of whole words drop the blank between two. */
    private static final int DROPPED_BLANKS = 1;

    private final Tokenizer tokenizer;
    private final int contextTokens;
    private final int maxCharactersPerToken;

    PromptReader(Tokenizer tokenizer, int contextTokens) {
        this.tokenizer = tokenizer;
        this.contextTokens = contextTokens;
        this.maxCharactersPerToken = maxTokenLength(tokenizer.vocabulary()) + DROPPED_BLANKS;
    }

    /** No token stands for more characters than it has bytes. */
    private static int maxTokenLength(Vocabulary vocabulary) {
        int longest = 1;
        for (int id = 0; id < vocabulary.size(); id++) {
            longest = Math.max(longest, vocabulary.bytes(id).length);
        }
        return longest;
    }

    /**
     * Refuses text of which even the longest tokens would fill the context.
     *
     * @param field to blame
     */
    void checkLength(String field, long characters) {
        if (characters > maxCharacters()) {
            throw tooLong(field, characters);
        }
    }

    /** Refuses more tokens, or things of at least a token each, than the context holds. */
    void checkTokens(String field, int tokens) {
        if (tokens > contextTokens) {
            throw tooMany(field, tokens);
        }
    }

    /** Of any text that fits. */
    long maxCharacters() {
        return (long) contextTokens * maxCharactersPerToken;
    }

    RequestException tooLong(String field, long characters) {
        return tooMany(field, (characters + maxCharactersPerToken - 1) / maxCharactersPerToken);
    }

    private RequestException tooMany(String field, long atLeast) {
        return RequestException.bad(
                field,
                "This model's maximum context length is " + contextTokens
                        + " tokens. However, your request has at least "
                        + atLeast + " tokens in " + field + ". Please reduce its length.");
    }

    int[] encode(String field, String text, boolean addSpecial) {
        checkLength(field, text.length());
        checkPairs(field, text);
        for (long probe = (long) contextTokens * PROBE_CHARACTERS_PER_TOKEN; probe < text.length() / 2; probe *= 2) {
            int end = Character.isHighSurrogate(text.charAt((int) probe - 1)) ? (int) probe - 1 : (int) probe;
            int tokens = tokenize(field, text.substring(0, end), false).length - PROBE_SLACK;
            if (tokens > contextTokens) {
                throw tooMany(field, tokens);
            }
        }
        return tokenize(field, text, addSpecial);
    }

    private int[] tokenize(String field, String text, boolean addSpecial) {
        try {
            return tokenizer.encode(text, addSpecial);
        } catch (TokenizerException e) { // longer than the library can bear
            throw RequestException.bad(field, String.valueOf(e.getMessage()));
        }
    }

    /** Half of a surrogate pair is no character, and has no form in UTF-8. */
    private static void checkPairs(String field, String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
                i++;
            } else if (Character.isSurrogate(c)) {
                throw RequestException.bad(
                        field,
                        String.format(
                                Locale.ROOT,
                                "%s has half of a surrogate pair, \\u%04x, at character %d; it must be valid Unicode",
                                field,
                                (int) c,
                                i));
            }
        }
    }
}
