package dev.tandem.langchain4j;

import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.common.AbstractChatModelIT;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import java.util.List;
import org.junit.jupiter.api.Disabled;

/** LangChain4j's tests of whole answers. */
class ChatModelTckTest extends AbstractChatModelIT {
    static final String ONE_MODEL = "there is one model, and other names are refused";

    @Override
    protected List<ChatModel> models() {
        return List.of(new TandemChatModel(TckModel.TANDEM));
    }

    @Override
    protected ChatModel createModelWith(ChatRequestParameters parameters) {
        return new TandemChatModel(TckModel.TANDEM, parameters, List.of());
    }

    @Override
    protected ChatRequestParameters createIntegrationSpecificParameters(int maxOutputTokens) {
        return ChatRequestParameters.builder().maxOutputTokens(maxOutputTokens).build();
    }

    @Override
    protected boolean supportsModelNameParameter() {
        return false;
    }

    @Override
    @Disabled(ONE_MODEL)
    protected void should_fail_if_modelName_is_not_supported(ChatModel model) {}

    @Override
    protected boolean supportsSingleImageInputAsBase64EncodedString() {
        return false;
    }

    @Override
    protected boolean supportsSingleImageInputAsPublicURL() {
        return false;
    }
}
