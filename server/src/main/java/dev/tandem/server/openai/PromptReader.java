package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.TokenizerException;
import dev.tandem.text.Vocabulary;
import java.util.Arrays;
import java.util.Locale;
import java.util.OptionalInt;

/**
 * Tokenizes prompts; text that cannot fit into the context is refused early, before it costs much time.
 *
 * <p>Owned by: thread-safe.
 */
final class PromptReader {
    /** Twice as many as English text has per token, so that a prompt that fits is tokenized only once. */
    private static final int PROBE_CHARACTERS_PER_TOKEN = 8;
    /** Cutting a word can add tokens, so a probe is counted with this many fewer. */
    private static final int PROBE_SLACK = 64;

    /** Tokenizers of whole words drop the space between two words. */
    private static final int DROPPED_BLANKS = 1;

    private final Tokenizer tokenizer;
    private final int contextTokens;
    private final int maxCharactersPerToken;

    PromptReader(Tokenizer tokenizer, int contextTokens) {
        this.tokenizer = tokenizer;
        this.contextTokens = contextTokens;
        this.maxCharactersPerToken = maxTokenLength(tokenizer.vocabulary()) + DROPPED_BLANKS;
    }

    /** The max bytes of a token, which bounds its characters. */
    private static int maxTokenLength(Vocabulary vocabulary) {
        int longest = 1;
        for (int id = 0; id < vocabulary.size(); id++) {
            longest = Math.max(longest, vocabulary.bytes(id).length);
        }
        return longest;
    }

    /**
     * Refuses text that exceeds the context even if all its tokens are the longest ones.
     *
     * @param field that the error names
     */
    void checkLength(String field, long characters) {
        if (characters > maxCharacters()) {
            throw tooLong(field, characters);
        }
    }

    /** Refuses more tokens (or items of at least one token each) than the context holds. */
    void checkTokens(String field, int tokens) {
        if (tokens > contextTokens) {
            throw tooMany(field, tokens);
        }
    }

    /** The max characters of any text that fits into the context. */
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

    /** Tokenizes text that must fit into the context. */
    int[] encode(String field, String text, boolean addSpecial) {
        return encode(field, text, addSpecial, false);
    }

    /** @param truncates whether the caller shortens the prompt, so that text beyond the context is no error */
    int[] encode(String field, String text, boolean addSpecial, boolean truncates) {
        checkPairs(field, text);
        if (!truncates) {
            refuseTooLong(field, text);
        }
        return tokenize(field, text, addSpecial);
    }

    private void refuseTooLong(String field, String text) {
        checkLength(field, text.length());
        for (long probe = (long) contextTokens * PROBE_CHARACTERS_PER_TOKEN; probe < text.length() / 2; probe *= 2) {
            int end = Character.isHighSurrogate(text.charAt((int) probe - 1)) ? (int) probe - 1 : (int) probe;
            int tokens = tokenize(field, text.substring(0, end), false).length - PROBE_SLACK;
            if (tokens > contextTokens) {
                throw tooMany(field, tokens);
            }
        }
    }

    /**
     * The prompt's last tokens, as {@code truncate_prompt_tokens} says; -1 stands for as many as the context holds.
     *
     * @param maxTokens of the answer
     */
    int[] truncate(RequestFields fields, int[] prompt, int maxTokens) {
        OptionalInt wanted = fields.integer("truncate_prompt_tokens");
        if (wanted.isEmpty()) {
            return prompt;
        }
        int count = wanted.getAsInt();
        if (count < 1 && count != -1) {
            throw RequestException.bad(
                    "truncate_prompt_tokens",
                    "truncate_prompt_tokens is " + count
                            + "; it must be at least 1, or -1 for as many tokens as the context holds");
        }
        int kept = count == -1 ? Math.max(1, contextTokens - maxTokens) : count;
        return kept < prompt.length ? Arrays.copyOfRange(prompt, prompt.length - kept, prompt.length) : prompt;
    }

    private int[] tokenize(String field, String text, boolean addSpecial) {
        try {
            return tokenizer.encode(text, addSpecial);
        } catch (TokenizerException e) { // longer than the tokenizer library can process
            throw RequestException.bad(field, String.valueOf(e.getMessage()));
        }
    }

    /** Refuses an unpaired surrogate, which UTF-8 cannot encode. */
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
