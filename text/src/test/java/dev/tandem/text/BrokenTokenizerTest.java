package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Broken tokenizers are refused with a message that gives the reason, before native code reads them. */
class BrokenTokenizerTest {
    private static final String VALID = """
            {"version": "1.0", "normalizer": null, "truncation": null, "padding": null,
             "added_tokens": [{"id": 2, "content": "<s>", "special": true, "single_word": false, "lstrip": false,
               "rstrip": false,
                               "normalized": false}],
             "post_processor": null, "decoder": null,
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
             "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}""";

    @TempDir
    Path folder;

    private void assertRefused(String json, String message) {
        assertThatThrownBy(() -> TokenizerFile.of(json.getBytes(StandardCharsets.UTF_8), "tokenizer.json"))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining(message)
                .hasMessageStartingWith("tokenizer.json");
    }

    @ParameterizedTest
    @CsvSource(
            delimiterString = "=>",
            quoteCharacter = '`',
            value = {
                "\"a\": 0 => \"a\": 2000000000 => token 'a' has the id 2000000000; it must be a number below 4194304",
                "\"a\": 0 => \"a\": -1 => token 'a' has the id -1",
                "\"a\": 0 => \"a\": 99999999999 => token 'a' has the id 99999999999",
                "\"a\": 0 => \"a\": \"0\" => token 'a' has the id \"0\"",
                "\"a\": 0 => \"a\": 1 => tokens 'a' and 'b' have the same id, 1",
                "\"a\": 0 => \"b\": 0 => Duplicate",
                "{\"a\": 0, \"b\": 1} => [[\"a\", 0], 7] => a token is ; it must be a string",
                "{\"a\": 0, \"b\": 1} => 7 => there is no vocabulary under model.vocab",
                "\"id\": 2 => \"id\": 2000000000 => token '<s>' has the id 2000000000",
                "\"id\": 2 => \"id\": 1 => tokens 'b' and '<s>' have the same id, 1",
                "\"content\": \"<s>\" => \"content\": null => a token is null; it must be a string",
                "\"normalizer\": null => \"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": "
                        + "\"AAAA\"} => a step of type \"Precompiled\" is not supported",
                "\"type\": \"ByteLevel\", => \"type\": \"FixedLength\", \"length\": 0, => a step of type "
                        + "\"FixedLength\" is not supported",
                "\"type\": \"BPE\" => \"type\": \"Other\" => a step of type \"Other\" is not supported",
                "\"type\": \"BPE\" => \"type\": \"BPE\", \"continuing_subword_prefix\": \"##\" => "
                        + "continuing_subword_prefix is not supported",
                "\"post_processor\": null => \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                        + "[{\"Sequence\": {\"id\": \"B\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {}} "
                        + "=> is neither sequence A nor",
                "\"post_processor\": null => \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                        + "[{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}], \"pair\": [], "
                        + "\"special_tokens\": {}} => is neither sequence A nor",
                "\"post_processor\": null => \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "
                        + "\"$A\", \"pair\": [], \"special_tokens\": {}} => 'single' is not a list",
                "\"post_processor\": null => \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"a\", "
                        + "4000000000], \"cls\": [\"a\", 0]} => has the id 4000000000",
                "\"normalizer\": null => \"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": "
                        + "\"(a+)+b\"}, \"content\": \"x\"} => the pattern (a+)+b is refused",
                "\"decoder\": null => \"decoder\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(a+)+b\"}, "
                        + "\"content\": \"x\"} => the pattern (a+)+b is refused",
                "\"version\": \"1.0\", => => is not valid JSON",
            })
    void isRefused(String part, String broken, String message) {
        assertRefused(broken == null ? VALID.substring(1) : VALID.replace(part, broken), message);
    }

    @Test
    void aNormalizerThatLengthensTheTextLowersTheLimit() {
        TokenizerLimits plain =
                TokenizerFile.of(VALID.getBytes(StandardCharsets.UTF_8), "t").limits();
        TokenizerLimits normalized = TokenizerFile.of(
                        VALID.replace("\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}")
                                .getBytes(StandardCharsets.UTF_8),
                        "t")
                .limits();
        assertThat(normalized.maxAscii()).isEqualTo(plain.maxAscii());
        assertThat(normalized.maxOther()).isEqualTo(plain.maxOther() / 3);
        assertRefused(
                VALID.replace(
                        "\"normalizer\": null",
                        "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \""
                                + "b".repeat(5000) + "\"}"),
                "more than 1000 times as long");
    }

    @Test
    void deeplyNestedStepsAreRefused() {
        String steps = "{\"type\": \"Sequence\", \"normalizers\": [".repeat(50) + "]}".repeat(50);
        assertRefused(VALID.replace("\"normalizer\": null", "\"normalizer\": " + steps), "nested more than 20 deep");
    }

    @Test
    void oversizedFilesAreNotRead() throws Exception {
        Path file = folder.resolve("tokenizer.json");
        try (RandomAccessFile sparse = new RandomAccessFile(file.toFile(), "rw")) {
            sparse.setLength(3L << 30);
        }
        assertThatThrownBy(() -> HuggingFaceTokenizer.open(folder))
                .isInstanceOf(TokenizerException.class)
                .hasMessageContaining("has 3221225472 bytes; the limit is 268435456");
        Files.writeString(file, VALID);
        try (Tokenizer tokenizer = HuggingFaceTokenizer.open(folder)) {
            assertThat(tokenizer.encode("ab<s>", false)).containsExactly(0, 1, 2);
            assertThat(tokenizer.decode(new int[] {0, 1, 2}, false)).isEqualTo("ab<s>");
        }
    }

    private static TokenizerDescription description(
            String kind, List<String> tokens, float[] scores, int[] types, List<String> merges, int begin) {
        return new TokenizerDescription(kind, "qwen2", tokens, scores, types, merges, begin, -1, true, false);
    }

    private static void assertRefused(TokenizerDescription description, String message) {
        assertThatThrownBy(() -> description.open("m.gguf").close())
                .isInstanceOf(TokenizerException.class)
                .hasMessageStartingWith("m.gguf: ")
                .hasMessageContaining(message);
    }

    @Test
    void partsOfAGgufVocabularyMustBeConsistent() {
        List<String> ab = List.of("a", "b", "ab");
        float[] scores = new float[3];
        int[] types = {1, 1, 1};
        assertRefused(description("gpt2", ab, scores, new int[5], List.of(), -1), "3 tokens have 5 types");
        assertRefused(description("llama", ab, new float[1], types, List.of(), -1), "3 tokens have 1 scores");
        assertRefused(description("gpt2", ab, scores, types, List.of("ab"), -1), "the merge 'ab' is not two tokens");
        assertRefused(description("gpt2", ab, scores, types, List.of("a c"), -1), "the merge 'a c' is not two tokens");
        assertRefused(
                description("gpt2", ab, scores, types, List.of("a b"), 3),
                "bos_token_id is 3 and the vocabulary has 3 tokens");
        assertRefused(description("gpt2", ab, scores, types, List.of("a b"), -7), "bos_token_id is -7");
        assertRefused(description("gpt2", List.of("a", "a"), scores, new int[2], List.of(), -1), "the token 'a' twice");
        assertRefused(description("gpt2", List.of(), scores, new int[0], List.of(), -1), "has 0 tokens");
        assertRefused(
                description("mamba", ab, scores, types, List.of(), -1), "tokenizer model 'mamba' is not supported");
        List<String> tokens = new ArrayList<>(ab);
        tokens.add("x".repeat(100_000));
        assertRefused(description("llama", tokens, new float[4], new int[4], List.of(), -1), "its tokens are too long");
        try (Tokenizer tokenizer =
                description("gpt2", ab, scores, types, List.of("a b"), 0).open("m.gguf")) {
            assertThat(tokenizer.encode("ab", true)).containsExactly(0, 2);
        }
    }

    @Test
    void aMalformedByteTokenIsText() {
        Vocabulary vocabulary = new Vocabulary(
                new String[] {"<0x41>", "<0xZZ>"}, new BitSet(), new BitSet(), Vocabulary.Spelling.SENTENCE_PIECE);
        assertThat(Arrays.asList(new String(vocabulary.bytes(0)), new String(vocabulary.bytes(1))))
                .containsExactly("A", "<0xZZ>");
    }
}
