package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.server.FakeTokenizer;
import org.junit.jupiter.api.Test;

class PromptReaderTest {
    private static final int CONTEXT = 100;
    /** Its longest token is as long as those of real vocabularies, which are runs of spaces. */
    private final FakeTokenizer tokenizer = new FakeTokenizer(" ".repeat(500));

    private final PromptReader reader = new PromptReader(tokenizer, CONTEXT);

    @Test
    void aPromptThatFitsIsTokenizedOnce() {
        assertThat(reader.encode("prompt", "x".repeat(CONTEXT), true)).hasSize(CONTEXT);
        assertThat(tokenizer.calls).hasValue(1);
    }

    @Test
    void textBeyondTheLongestTokensIsNotTokenized() {
        assertThatThrownBy(() -> reader.encode("prompt", "x".repeat(CONTEXT * 501 + 1), true))
                .hasMessageContaining("maximum context length is 100 tokens")
                .hasMessageContaining("at least 101 tokens");
        assertThat(tokenizer.calls).hasValue(0);
    }

    @Test
    void longTextIsRefusedAfterTokenizingItsBeginning() {
        assertThatThrownBy(() -> reader.encode("prompt", "x".repeat(CONTEXT * 500), true))
                .hasMessageContaining("maximum context length is 100 tokens");
        assertThat(tokenizer.longest).hasValue(8 * CONTEXT);
    }

    @Test
    void aProbeDoesNotSplitASurrogatePair() {
        String text = "x" + "🙂".repeat(CONTEXT * 200);
        assertThatThrownBy(() -> reader.encode("prompt", text, true)).hasMessageContaining("maximum context length");
        assertThat(tokenizer.longest).hasValue(8 * CONTEXT - 1);
    }
}
