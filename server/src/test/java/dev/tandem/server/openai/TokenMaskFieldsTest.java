package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.server.ScriptedVocabulary;
import dev.tandem.text.Tokenizer;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code allowed_token_ids} and {@code bad_words}, with a tokenizer that makes one token of each character. */
class TokenMaskFieldsTest {
    private static final Tokenizer TOKENIZER = ScriptedVocabulary.tokenizer();

    private static SamplingParams read(String json) {
        RequestParser parser = new RequestParser(new PromptReader(TOKENIZER, 1000));
        RequestFields fields = parser.parse(
                new ByteArrayInputStream(json.getBytes(StandardCharsets.UTF_8)), ApiFields.Endpoint.COMPLETIONS);
        return TokenMaskFields.mask(SamplingParams.builder().build(), fields, TOKENIZER);
    }

    private static BitSet allowed(GrammarMatcher matcher) {
        int[] words = new int[GrammarMatcher.words(TOKENIZER.vocabulary().size())];
        matcher.fillBitmask(words);
        BitSet bits = new BitSet();
        for (int token = 0; token < TOKENIZER.vocabulary().size(); token++) {
            bits.set(token, (words[token / 32] >>> token & 1) == 1);
        }
        return bits;
    }

    @Test
    void allowedTokensAreTheOnlyOnes() {
        GrammarMatcher matcher =
                read("{\"allowed_token_ids\": [97, 3]}").grammar().orElseThrow().matcher();
        assertThat(allowed(matcher).stream()).containsExactly(3, 97);
    }

    @Test
    void badWordsAreBannedAtTheStartAndAfterABlank() {
        GrammarMatcher matcher =
                read("{\"bad_words\": [\"ab\"]}").grammar().orElseThrow().matcher();
        assertThat(allowed(matcher).get('b')).isTrue();
        matcher.accept('a');
        assertThat(allowed(matcher).get('b')).isFalse();
        assertThat(allowed(matcher).cardinality())
                .isEqualTo(TOKENIZER.vocabulary().size() - 1);
    }

    @Test
    void withoutFieldsThereIsNoMask() {
        assertThat(read("{}").grammar()).isEmpty();
        assertThat(read("{\"bad_words\": []}").grammar()).isEmpty();
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "{\"allowed_token_ids\": []} | at least one token id",
                "{\"allowed_token_ids\": [100000]} | not in the vocabulary",
                "{\"allowed_token_ids\": [\"a\"]} | an integer",
                "{\"bad_words\": \"a\"} | a list of strings",
                "{\"bad_words\": [1]} | a string",
                "{\"bad_words\": [\" \"]} | without letters"
            })
    void errorsNameTheField(String json, String words) {
        assertThatThrownBy(() -> read(json))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining(words);
    }
}
