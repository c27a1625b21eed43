package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RegexBacktrackingTest {
    /**
     * Patterns of the tokenizers of GPT-2, cl100k (Llama 3), Qwen 2, o200k (similar to Mistral's Tekken), DeepSeek and
     * others.
     */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                        + "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                        + "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                "(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
                        + "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
                "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|"
                        + "'re|'ve|'m|'ll|'d)?"
                        + "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
                        + "]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
                        + "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                        + "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                "[一-龥\u3040-ゟ゠-ヿ]+",
                "\\s?\\p{L}+",
                "[\\r\\n]",
                " {2,}",
                "\\d{1,3}(?=(?:\\d{3})*\\b)",
                "(?<=a)b*+",
                "(?:ab)*c",
                "\\p{N}{1,3}(?:,\\p{N}{3})?",
                "\\x41\\u00e9[[:alpha:]&&[^a]]+",
                ""
            })
    void patternsOfTokenizersAllowLongTexts(String pattern) {
        assertThat(RegexBacktracking.of(pattern).maxCharacters()).isGreaterThan(1_200_000);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "(a+)+b",
                "(a*)*",
                "(?:a|a)*b",
                "(a|b)*c",
                "a*a*b",
                "\\s+\\s+x",
                "(?:a?){3,}b",
                "((a{1,9}){1,9}){1,9}{1,9}b",
                "(x+x+)+y",
                "(?i:s+)",
                "a*(b*c)d",
                "(?i)s*",
                "(?!a*a*b)",
                "(?=(a+)+b)c"
            })
    void patternsThatMayBacktrackWithoutBoundAreRefused(String pattern) {
        assertThatThrownBy(() -> RegexBacktracking.of(pattern))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("is refused at character");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "(a)\\1",
                "\\k<a>",
                "(?<a>x)\\g<a>",
                "\\X",
                "a\\K",
                "(?~ab)",
                "(?(1)a)",
                "(*FAIL)",
                "(?{x})",
                "(?x: a)",
                "(",
                ")",
                "[a",
                "\\",
                "*",
                "(?",
                "(?<a",
                "\\pL",
                "[\\R]",
                "a{1001}",
                "a{2,1}",
                "(?i",
                "(?y{g}a)"
            })
    void unknownSyntaxIsRefused(String pattern) {
        assertThatThrownBy(() -> RegexBacktracking.of(pattern))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("is refused at character");
    }

    @Test
    void deepAndLongPatternsAreRefused() {
        assertThatThrownBy(() -> RegexBacktracking.of("(".repeat(5_000)))
                .hasMessageContaining("nested more than 50 deep");
        assertThatThrownBy(() -> RegexBacktracking.of("[".repeat(5_000)))
                .hasMessageContaining("nested more than 50 deep");
        assertThatThrownBy(() -> RegexBacktracking.of("a".repeat(5_000)))
                .hasMessageContaining("1000 parts in sequence");
        assertThatThrownBy(() -> RegexBacktracking.of("a".repeat(50_000))).hasMessageContaining("has 50000 characters");
    }
}
