import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.argThat;
import static org.mockito.Mockito.atLeast;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.common.AbstractChatModelIT;
import dev.langchain4j.model.chat.common.AbstractChatModelListenerIT;
import dev.langchain4j.model.chat.common.AbstractStreamingChatModelIT;
import dev.langchain4j.model.chat.common.AbstractStreamingChatModelListenerIT;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.response.ChatResponseMetadata;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiChatRequestParameters;
import dev.langchain4j.model.openai.OpenAiChatResponseMetadata;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.model.openai.OpenAiTokenUsage;
import dev.langchain4j.model.output.TokenUsage;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Disabled;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.mockito.InOrder;

/** LangChain4j's tests of chat models against a server with OpenAI's API: java Tck.java URL. */
public final class Tck {
    private static final String ONE_MODEL = "the server has one model, and refuses other names with 404";
    private static String url = "";
    private static String model = "";

    private Tck() {}

    /** Prints each test that passed or was skipped; ends with 1 when one failed or none passed. */
    public static void main(String[] arguments) {
        url = arguments[0] + "/v1";
        model = arguments[1];
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(
                        DiscoverySelectors.selectClass(Chat.class),
                        DiscoverySelectors.selectClass(Streaming.class),
                        DiscoverySelectors.selectClass(ChatListener.class),
                        DiscoverySelectors.selectClass(StreamingListener.class))
                .build();
        Report report = new Report();
        LauncherFactory.create().execute(request, report);
        report.skipped.forEach(System.out::println);
        System.out.println(report.passed + " passed, " + report.skipped.size() + " skipped, " + report.failed
                + " failed");
        System.out.println(report.failed == 0 && report.passed > 0 ? "all fine" : "not fine");
        System.out.flush();
        System.exit(report.failed == 0 && report.passed > 0 ? 0 : 1);
    }

    /** Counts the tests of one thread. */
    private static final class Report implements TestExecutionListener {
        private final Set<String> skipped = new TreeSet<>();
        private int passed;
        private int failed;

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            skipped.add("skipped: " + name(test) + ": " + reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            result.getThrowable().ifPresent(cause -> {
                failed++;
                System.out.println("failed: " + name(test));
                cause.printStackTrace(System.out);
            });
            boolean succeeded = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            passed += test.isTest() && succeeded ? 1 : 0;
        }

        private static String name(TestIdentifier test) {
            return test.getUniqueId().replaceAll(".*\\[class:Tck\\$([^]]*)]", "$1").replaceAll("/?\\[[^:]*:", " ")
                    .replace("]", "");
        }
    }

    private static OpenAiChatModel.OpenAiChatModelBuilder builder() {
        return OpenAiChatModel.builder().baseUrl(url).apiKey("unused").modelName(model).maxRetries(0);
    }

    private static OpenAiStreamingChatModel.OpenAiStreamingChatModelBuilder streamingBuilder() {
        return OpenAiStreamingChatModel.builder().baseUrl(url).apiKey("unused").modelName(model);
    }

    private static ChatRequestParameters ofOpenAi(int maxOutputTokens) {
        return OpenAiChatRequestParameters.builder()
                .maxOutputTokens(maxOutputTokens)
                .build();
    }

    /** Tests of whole answers. */
    public static class Chat extends AbstractChatModelIT {
        @Override
        protected List<ChatModel> models() {
            return List.of(
                    builder().build(), builder().strictJsonSchema(true).strictTools(true).build());
        }

        @Override
        protected ChatModel createModelWith(ChatRequestParameters parameters) {
            return builder().defaultRequestParameters(parameters).build();
        }

        @Override
        protected ChatRequestParameters createIntegrationSpecificParameters(int maxOutputTokens) {
            return ofOpenAi(maxOutputTokens);
        }

        @Override
        protected Class<? extends ChatResponseMetadata> chatResponseMetadataType(ChatModel model) {
            return OpenAiChatResponseMetadata.class;
        }

        @Override
        protected Class<? extends TokenUsage> tokenUsageType(ChatModel model) {
            return OpenAiTokenUsage.class;
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

        /** Images are refused by the server, not by the client. */
        @Override
        protected boolean assertExceptionType() {
            return false;
        }
    }

    /** Tests of streams. */
    public static class Streaming extends AbstractStreamingChatModelIT {
        @Override
        protected List<StreamingChatModel> models() {
            return List.of(
                    streamingBuilder().build(),
                    streamingBuilder().strictJsonSchema(true).strictTools(true).build());
        }

        @Override
        protected StreamingChatModel createModelWith(ChatRequestParameters parameters) {
            return streamingBuilder().defaultRequestParameters(parameters).build();
        }

        @Override
        public StreamingChatModel createModelWith(ChatModelListener listener) {
            return streamingBuilder().listeners(List.of(listener)).build();
        }

        @Override
        protected ChatRequestParameters createIntegrationSpecificParameters(int maxOutputTokens) {
            return ofOpenAi(maxOutputTokens);
        }

        @Override
        protected Class<? extends ChatResponseMetadata> chatResponseMetadataType(StreamingChatModel model) {
            return OpenAiChatResponseMetadata.class;
        }

        @Override
        protected Class<? extends TokenUsage> tokenUsageType(StreamingChatModel model) {
            return OpenAiTokenUsage.class;
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
                StreamingChatResponseHandler handler,
                InOrder order,
                int index,
                String id,
                String name,
                String arguments) {
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
        @Disabled(ONE_MODEL)
        protected void should_fail_if_modelName_is_not_supported(StreamingChatModel model) {}

        @Override
        protected boolean supportsSingleImageInputAsBase64EncodedString() {
            return false;
        }

        @Override
        protected boolean supportsSingleImageInputAsPublicURL() {
            return false;
        }

        /** Images are refused by the server, not by the client. */
        @Override
        protected boolean assertExceptionType() {
            return false;
        }
    }

    /** Tests of what listeners see of whole answers. */
    public static class ChatListener extends AbstractChatModelListenerIT {
        @Override
        protected ChatModel createModel(ChatModelListener listener) {
            return builder().temperature(temperature())
                    .topP(topP())
                    .maxTokens(maxTokens())
                    .listeners(List.of(listener))
                    .build();
        }

        @Override
        protected String modelName() {
            return model;
        }

        @Override
        protected ChatModel createFailingModel(ChatModelListener listener) {
            return builder().modelName("another").listeners(List.of(listener)).build();
        }

        @Override
        protected Class<? extends Exception> expectedExceptionClass() {
            return ModelNotFoundException.class;
        }
    }

    /** Tests of what listeners see of streams. */
    public static class StreamingListener extends AbstractStreamingChatModelListenerIT {
        @Override
        protected StreamingChatModel createModel(ChatModelListener listener) {
            return streamingBuilder()
                    .temperature(temperature())
                    .topP(topP())
                    .maxTokens(maxTokens())
                    .listeners(List.of(listener))
                    .build();
        }

        @Override
        protected String modelName() {
            return model;
        }

        @Override
        protected StreamingChatModel createFailingModel(ChatModelListener listener) {
            return streamingBuilder().modelName("another").listeners(List.of(listener)).build();
        }

        @Override
        protected Class<? extends Exception> expectedExceptionClass() {
            return ModelNotFoundException.class;
        }
    }
}
