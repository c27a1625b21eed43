package dev.tandem.text;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * A small SentencePiece vocabulary, in which runs of spaces are user-defined tokens as in Gemma 3, against Google's
 * sentencepiece ({@code tools/make_token_goldens.py --small}).
 */
class SentencePieceTest {
    private static JsonNode golden() throws IOException {
        return new ObjectMapper().readTree(Files.readAllBytes(Path.of("src/test/resources/sentencepiece.json")));
    }

    private static Tokenizer open(JsonNode vocabulary) {
        List<String> tokens = new ArrayList<>();
        int[] types = new int[vocabulary.size()];
        float[] scores = new float[vocabulary.size()];
        for (int id = 0; id < vocabulary.size(); id++) {
            tokens.add(vocabulary.get(id).get(0).asString());
            types[id] = vocabulary.get(id).get(1).asInt();
            scores[id] = vocabulary.get(id).get(2).floatValue();
        }
        return new TokenizerDescription("llama", "default", tokens, scores, types, List.of(), 1, 0, true, false)
                .open("small.gguf");
    }

    @Test
    void tokensAreThoseOfSentencePiece() throws IOException {
        JsonNode golden = golden();
        try (Tokenizer tokenizer = open(golden.get("vocabulary"))) {
            for (JsonNode one : golden.get("cases")) {
                String text = one.get("text").asString();
                int[] expected = one.get("tokens")
                        .valueStream()
                        .mapToInt(JsonNode::asInt)
                        .toArray();
                assertThat(tokenizer.encode(text, false)).as("'%s'", text).containsExactly(expected);
                assertThat(tokenizer.decode(expected, false)).isEqualTo(text);
                assertThat(tokenizer.encode(text, true)).startsWith(1).hasSize(expected.length + 1);
            }
        }
    }
}
