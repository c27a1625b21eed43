package dev.tandem.grammar;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The tokens of a text have its bytes, whatever the tokenizer adds. */
class ByteTokenizerTest {
    private static int[] encode(Tokenizer tokenizer, String text) {
        return new ByteTokenizer(tokenizer).encode(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String bytes(int[] tokens) {
        StringBuilder text = new StringBuilder();
        for (int token : tokens) {
            text.append(new String(Vocabularies.BYTES.bytes(token), StandardCharsets.ISO_8859_1));
        }
        return text.toString();
    }

    /** Begins every text with a space, as tokenizers of SentencePiece do. */
    private record SpaceFirst(List<String> asked) implements Tokenizer {
        @Override
        public int[] encode(String text, boolean addSpecial) {
            asked.add(text);
            return Vocabularies.TOKENIZER.encode(" " + text, addSpecial);
        }

        @Override
        public Vocabulary vocabulary() {
            return Vocabularies.BYTES;
        }

        @Override
        public void close() {}
    }

    @Test
    void theTokenizersTokensAreTaken() {
        assertThat(encode(Vocabularies.TOKENIZER, "name\": true"))
                .isEqualTo(Vocabularies.TOKENIZER.encode("name\": true", false));
    }

    @Test
    void aSpaceThatTheTokenizerPutsInFrontIsLeftOut() {
        List<String> asked = new ArrayList<>();
        int[] tokens = encode(new SpaceFirst(asked), "name");
        assertThat(tokens).isEqualTo(Vocabularies.TOKENIZER.encode("name", false));
        assertThat(asked).hasSize(2);
    }

    @Test
    void specialTokensThatATextSpellsAreNotTaken() {
        String text = "a" + Vocabularies.BYTES.token(Vocabularies.MARKER) + "name";
        assertThat(Vocabularies.TOKENIZER.encode(text, false)).contains(Vocabularies.MARKER);
        int[] tokens = encode(Vocabularies.TOKENIZER, text);
        assertThat(Arrays.stream(tokens).filter(Vocabularies.BYTES::isSpecial)).isEmpty();
        assertThat(bytes(tokens)).isEqualTo(text);
        assertThat(tokens).as("the longest tokens").contains(Vocabularies.TOKENIZER.encode("name", false));
    }
}
