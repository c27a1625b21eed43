package dev.tandem.langchain4j;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.argThat;
import static org.mockito.Mockito.atLeast;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.common.AbstractStreamingChatModelIT;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import java.util.List;
import org.junit.jupiter.api.Disabled;
import org.mockito.InOrder;

/** LangChain4j's tests of streams. */
class StreamingChatModelTckTest extends AbstractStreamingChatModelIT {
    @Override
    protected List<StreamingChatModel> models() {
        return List.of(new TandemStreamingChatModel(TckModel.TANDEM));
    }

    @Override
    protected StreamingChatModel createModelWith(ChatRequestParameters parameters) {
        return new TandemStreamingChatModel(TckModel.TANDEM, parameters, List.of());
    }

    @Override
    public StreamingChatModel createModelWith(ChatModelListener listener) {
        return new TandemStreamingChatModel(
                TckModel.TANDEM, ChatRequestParameters.builder().build(), List.of(listener));
    }

    @Override
    protected ChatRequestParameters createIntegrationSpecificParameters(int maxOutputTokens) {
        return ChatRequestParameters.builder().maxOutputTokens(maxOutputTokens).build();
    }

    @Override
    protected void verifyToolCallbacks(StreamingChatResponseHandler handler, InOrder order, String id) {
        verifyCall(handler, order, 0, id, "getWeather", "{\"city\":\"Munich\"}");
    }

    @Override
    protected void verifyToolCallbacks(
            StreamingChatResponseHandler handler, InOrder order, String first, String second) {
        verifyToolCallbacks(handler, order, first);
        verifyCall(handler, order, 1, second, "getTime", "{\"country\":\"France\"}");
    }

    private static void verifyCall(
            StreamingChatResponseHandler handler, InOrder order, int index, String id, String name, String arguments) {
        order.verify(handler, atLeast(1))
                .onPartialToolCall(
                        argThat(call -> call.index() == index
                                && call.id().equals(id)
                                && call.name().equals(name)),
                        any());
        order.verify(handler).onCompleteToolCall(argThat(call -> {
            ToolExecutionRequest request = call.toolExecutionRequest();
            return call.index() == index
                    && request.id().equals(id)
                    && request.name().equals(name)
                    && request.arguments().equals(arguments);
        }));
    }

    @Override
    protected boolean supportsModelNameParameter() {
        return false;
    }

    @Override
    @Disabled(ChatModelTckTest.ONE_MODEL)
    protected void should_fail_if_modelName_is_not_supported(StreamingChatModel model) {}

    @Override
    protected boolean supportsSingleImageInputAsBase64EncodedString() {
        return false;
    }

    @Override
    protected boolean supportsSingleImageInputAsPublicURL() {
        return false;
    }
}
