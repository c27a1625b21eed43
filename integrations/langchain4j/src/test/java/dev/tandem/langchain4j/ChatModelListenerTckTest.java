package dev.tandem.langchain4j;

import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.common.AbstractChatModelListenerIT;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import java.util.List;

/** LangChain4j's tests of what listeners see of whole answers. */
class ChatModelListenerTckTest extends AbstractChatModelListenerIT {
    @Override
    protected ChatModel createModel(ChatModelListener listener) {
        return new TandemChatModel(
                TckModel.TANDEM,
                ChatRequestParameters.builder()
                        .temperature(temperature())
                        .topP(topP())
                        .maxOutputTokens(maxTokens())
                        .build(),
                List.of(listener));
    }

    @Override
    protected String modelName() {
        return TckModel.TANDEM.model();
    }

    @Override
    protected ChatModel createFailingModel(ChatModelListener listener) {
        return new TandemChatModel(
                TckModel.TANDEM,
                ChatRequestParameters.builder().modelName("another").build(),
                List.of(listener));
    }

    @Override
    protected Class<? extends Exception> expectedExceptionClass() {
        return ModelNotFoundException.class;
    }
}
