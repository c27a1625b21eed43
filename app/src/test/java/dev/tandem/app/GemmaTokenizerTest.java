package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import dev.tandem.model.Checkpoint;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.text.Tokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * The tokenizer of Gemma 3's real file against Google's sentencepiece ({@code tools/make_token_goldens.py}). The
 * property {@code tandem.gemma.model} names the file, which {@code tandem pull gemma3:270m} downloads.
 *
 * <p>The file is large, so the test is excluded by default.
 */
@Tag("slow")
class GemmaTokenizerTest {
    @Test
    void tokensAreThoseOfSentencePiece() throws IOException {
        String file = System.getProperty("tandem.gemma.model", "");
        assumeFalse(file.isEmpty(), "the property tandem.gemma.model is not set");
        JsonNode golden =
                new ObjectMapper().readTree(Files.readAllBytes(Path.of("src/test/resources/gemma3-270m/tokens.json")));
        try (Checkpoint checkpoint = Checkpoint.open(Path.of(file), LoadFormat.AUTO, 0);
                Tokenizer tokenizer = EngineAssembly.tokenizer(checkpoint, true).orElseThrow()) {
            int begin = tokenizer.encode("<bos>", false)[0];
            for (JsonNode one : golden.get("cases")) {
                String text = one.get("text").asString();
                int[] expected = one.get("tokens")
                        .valueStream()
                        .mapToInt(JsonNode::asInt)
                        .toArray();
                assertThat(tokenizer.encode(text, false)).as("'%s'", text).containsExactly(expected);
                assertThat(tokenizer.decode(expected, false)).isEqualTo(text);
                assertThat(tokenizer.encode(text, true)).startsWith(begin).hasSize(expected.length + 1);
            }
        }
    }
}
