package dev.tandem.server.openai;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.server.FakeTokenizer;
import org.junit.jupiter.api.Test;

class PromptReaderTest {
    private static final int CONTEXT = 100;
    /** As long as the longest tokens of real vocabularies, which are runs of blanks. */
    private final FakeTokenizer tokenizer = new FakeTokenizer(" ".repeat(500));

    private final PromptReader site = new PromptReader(tokenizer, CONTEXT);

    @Test
    void aPromptThatFitsIsTokenizedOnce() {
        assertThat(site.encode("prompt", "x".repeat(CONTEXT), true)).hasSize(CONTEXT);
        assertThat(tokenizer.calls).hasValue(1);
    }

    @Test
    void textThatTheLongestTokensCannotHoldIsNotTokenized() {
        assertThatThrownBy(() -> site.encode("prompt", "x".repeat(CONTEXT * 501 + 1), true))
                .hasMessageContaining("maximum context length is 100 tokens")
                .hasMessageContaining("at least 101 tokens");
        assertThat(tokenizer.calls).hasValue(0);
    }

    @Test
    void longTextIsRefusedByItsBeginning() {
        assertThatThrownBy(() -> site.encode("prompt", "x".repeat(CONTEXT * 500), true))
                .hasMessageContaining("maximum context length is 100 tokens");
        assertThat(tokenizer.longest).hasValue(8 * CONTEXT);
    }

    @Test
    void aProbeDoesNotCutACharacter() {
        String text = "x" + "🙂".repeat(CONTEXT * 200);
        assertThatThrownBy(() -> site.encode("prompt", text, true)).hasMessageContaining("maximum context length");
        assertThat(tokenizer.longest).hasValue(8 * CONTEXT - 1);
    }
}
