package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** GGUF's names of pre-tokenizers differ in how they split digits, and so in which merges apply. */
class PreTokenizerTest {
    private static TokenizerDescription description(String preTokenizer) {
        List<String> tokens = List.of("1", "2", "3", "4", "12", "123", "1234");
        return new TokenizerDescription(
                "gpt2",
                preTokenizer,
                tokens,
                new float[0],
                new int[0],
                List.of("1 2", "12 3", "123 4"),
                -1,
                -1,
                false,
                false);
    }

    @ParameterizedTest
    @CsvSource({
        "default, 1234",
        "gpt-2, 1234",
        "smollm, 1 2 3 4",
        "qwen2, 1 2 3 4",
        "llama-bpe, 123 4",
        "llama3, 123 4",
        "llama-v3, 123 4",
        "smaug-bpe, 123 4",
        "dbrx, 123 4",
    })
    void splitsDigits(String name, String tokens) {
        TokenizerDescription description = description(name);
        try (Tokenizer tokenizer = description.open("digits.gguf")) {
            List<String> actual = new ArrayList<>();
            Arrays.stream(tokenizer.encode("1234", false))
                    .forEach(id -> actual.add(description.tokens().get(id)));
            assertThat(String.join(" ", actual)).isEqualTo(tokens);
        }
    }

    @Test
    void unknownNamesAreRefused() {
        assertThatThrownBy(() -> description("other").open("digits.gguf"))
                .isInstanceOf(TokenizerException.class)
                .hasMessage("digits.gguf: pre-tokenizer 'other' is not known; known are default, gpt-2, smollm, "
                        + "llama-bpe, smaug-bpe, dbrx and qwen2");
    }
}
