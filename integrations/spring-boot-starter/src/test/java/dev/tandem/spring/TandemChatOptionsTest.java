package dev.tandem.spring;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.library.ToolChoice;
import org.junit.jupiter.api.Test;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.test.options.AbstractChatOptionsTests;

/** Spring AI's tests of options, and what is Tandem's own. */
class TandemChatOptionsTest extends AbstractChatOptionsTests<TandemChatOptions, TandemChatOptions.Builder> {
    @Override
    protected Class<TandemChatOptions> getConcreteOptionsClass() {
        return TandemChatOptions.class;
    }

    @Override
    protected TandemChatOptions.Builder readyToBuildBuilder() {
        return TandemChatOptions.builder()
                .temperature(0.5)
                .seed(7L)
                .toolChoice(new ToolChoice.Required())
                .outputSchema("{}");
    }

    @Test
    void optionsOfARequestWinOverDefaults() {
        TandemChatOptions both = readyToBuildBuilder()
                .combineWith(TandemChatOptions.builder().seed(8L).maxTokens(9))
                .build();
        assertThat(both)
                .isEqualTo(readyToBuildBuilder().seed(8L).maxTokens(9).build())
                .isNotEqualTo(readyToBuildBuilder().maxTokens(9).build());
        assertThat(both.hashCode())
                .isEqualTo(readyToBuildBuilder().seed(8L).maxTokens(9).build().hashCode());
    }

    @Test
    void optionsOfAnyModelAreTaken() {
        TandemChatOptions both = readyToBuildBuilder()
                .combineWith(ChatOptions.builder().temperature(0.25).topK(3))
                .build();
        assertThat(both)
                .isEqualTo(readyToBuildBuilder().temperature(0.25).topK(3).build());
    }
}
