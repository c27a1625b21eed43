package dev.tandem.langchain4j;

import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.common.AbstractStreamingChatModelListenerIT;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import java.util.List;

/** LangChain4j's tests of what listeners see of streams. */
class StreamingChatModelListenerTckTest extends AbstractStreamingChatModelListenerIT {
    @Override
    protected StreamingChatModel createModel(ChatModelListener listener) {
        return new TandemStreamingChatModel(
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
    protected StreamingChatModel createFailingModel(ChatModelListener listener) {
        return new TandemStreamingChatModel(
                TckModel.TANDEM,
                ChatRequestParameters.builder().modelName("another").build(),
                List.of(listener));
    }

    @Override
    protected Class<? extends Exception> expectedExceptionClass() {
        return ModelNotFoundException.class;
    }
}
