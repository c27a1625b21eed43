package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.TokenMask;
import dev.tandem.text.Tokenizer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import tools.jackson.databind.JsonNode;

/** Reads {@code allowed_token_ids} and {@code bad_words}: which tokens the output may not have. */
final class TokenMaskFields {
    private static final String ALLOWED = "allowed_token_ids";
    private static final String BAD_WORDS = "bad_words";
    /** As in vLLM's GPU sampler; each costs a comparison per output token. */
    private static final int MAX_BAD_WORDS = 128;

    private TokenMaskFields() {}

    /** The parameters with the request's mask, if it has one. */
    static SamplingParams mask(SamplingParams sampling, RequestFields fields, Tokenizer tokenizer) {
        Optional<BitSet> allowed = fields.field(ALLOWED)
                .map(list -> allowed(list, tokenizer.vocabulary().size()));
        List<int[]> banned =
                fields.field(BAD_WORDS).map(list -> banned(list, tokenizer)).orElse(List.of());
        return allowed.isEmpty() && banned.isEmpty() ? sampling : sampling.withGrammar(new TokenMask(allowed, banned));
    }

    private static BitSet allowed(JsonNode list, int vocabulary) {
        if (!list.isArray() || list.isEmpty()) {
            throw RequestFields.wrong(ALLOWED, list, "a list of at least one token id");
        }
        BitSet allowed = new BitSet(vocabulary);
        for (JsonNode item : list) {
            int token = RequestFields.whole(ALLOWED, item);
            if (token < 0 || token >= vocabulary) {
                throw RequestException.bad(
                        ALLOWED,
                        ALLOWED + " has token id " + token + ", which is not in the vocabulary of " + vocabulary);
            }
            allowed.set(token);
        }
        return allowed;
    }

    private static List<int[]> banned(JsonNode list, Tokenizer tokenizer) {
        if (!list.isArray()) {
            throw RequestFields.wrong(BAD_WORDS, list, "a list of strings");
        }
        if (list.size() > MAX_BAD_WORDS) {
            throw RequestException.bad(
                    BAD_WORDS, BAD_WORDS + " has " + list.size() + " entries; the max is " + MAX_BAD_WORDS);
        }
        List<int[]> banned = new ArrayList<>();
        for (JsonNode item : list) {
            String word = RequestFields.string(BAD_WORDS, item);
            if (word.isBlank()) {
                throw RequestException.bad(BAD_WORDS, BAD_WORDS + " has a word without letters; leave it out");
            }
            // tokenizers write a word differently at the start of a text and after a blank
            Stream.of(word, " " + word.stripLeading())
                    .map(text -> tokenizer.encode(text, false))
                    .filter(tokens -> tokens.length > 0)
                    .forEach(banned::add);
        }
        return banned;
    }
}
