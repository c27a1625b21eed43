package dev.tandem.langchain4j;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import org.junit.jupiter.api.Test;

/** The example of the page, and errors that LangChain4j's own tests do not ask for. */
class ExampleTest {
    @Test
    void aModelAnswers() {
        ChatModel model = new TandemChatModel(TckModel.TANDEM);
        assertThat(model.chat("What is the capital of Germany?")).contains("Berlin");
    }

    @Test
    void imagesAndWrongValuesAreRefused() {
        ChatModel model = new TandemChatModel(TckModel.TANDEM);
        assertThatThrownBy(() -> model.chat(UserMessage.from(ImageContent.from("https://example.org/a.png"))))
                .isInstanceOf(UnsupportedFeatureException.class)
                .hasMessageContaining("image");
        assertThatThrownBy(() -> model.chat(ChatRequest.builder()
                        .messages(UserMessage.from("hi"))
                        .temperature(3.0)
                        .build()))
                .isInstanceOf(InvalidRequestException.class)
                .hasMessageContaining("temperature is 3.0");
    }
}
