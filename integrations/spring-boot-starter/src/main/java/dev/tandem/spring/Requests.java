package dev.tandem.spring;

import dev.tandem.engine.request.RequestException;
import dev.tandem.library.ChatRequest;
import dev.tandem.library.Message;
import dev.tandem.library.ResponseFormat;
import dev.tandem.library.Sampling;
import dev.tandem.library.Tool;
import dev.tandem.library.ToolCall;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.SystemMessage;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.messages.UserMessage;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.content.Media;
import org.springframework.ai.model.tool.StructuredOutputChatOptions;
import org.springframework.ai.model.tool.ToolCallingChatOptions;
import org.springframework.ai.tool.definition.ToolDefinition;

/** Turns Spring AI's prompts into the library's requests. */
final class Requests {
    private Requests() {}

    /** @throws RequestException when a message has what the model cannot read */
    static ChatRequest of(List<org.springframework.ai.chat.messages.Message> messages, ChatOptions options) {
        ChatRequest request = ChatRequest.of(
                        messages.stream().flatMap(Requests::messages).toList())
                .withSampling(sampling(options));
        if (options instanceof ToolCallingChatOptions calling && calling.getToolCallbacks() != null) {
            request = request.withTools(calling.getToolCallbacks().stream()
                    .map(callback -> tool(callback.getToolDefinition()))
                    .toList());
        }
        if (options instanceof StructuredOutputChatOptions structured && structured.getOutputSchema() != null) {
            request = request.withFormat(new ResponseFormat.JsonSchema("answer", structured.getOutputSchema()));
        }
        if (options instanceof TandemChatOptions own && own.getToolChoice() != null) {
            request = request.withToolChoice(own.getToolChoice());
        }
        return options.getModel() == null ? request : request.withModel(options.getModel());
    }

    private static Sampling sampling(ChatOptions options) {
        Sampling.Builder sampling = Sampling.builder();
        Optional.ofNullable(options.getTemperature()).ifPresent(sampling::temperature);
        Optional.ofNullable(options.getTopP()).ifPresent(sampling::topP);
        Optional.ofNullable(options.getTopK()).ifPresent(sampling::topK);
        Optional.ofNullable(options.getPresencePenalty()).ifPresent(sampling::presencePenalty);
        Optional.ofNullable(options.getFrequencyPenalty()).ifPresent(sampling::frequencyPenalty);
        Optional.ofNullable(options.getMaxTokens()).ifPresent(sampling::maxTokens);
        Optional.ofNullable(options.getStopSequences()).ifPresent(sampling::stop);
        if (options instanceof TandemChatOptions own && own.getSeed() != null) {
            sampling.seed(own.getSeed());
        }
        return sampling.build();
    }

    private static Tool tool(ToolDefinition tool) {
        return new Tool(tool.name(), tool.description(), tool.inputSchema());
    }

    private static Stream<Message> messages(org.springframework.ai.chat.messages.Message message) {
        return switch (message) {
            case SystemMessage system -> Stream.of(new Message.System(text(system)));
            case UserMessage user -> {
                requireText("user", user.getMedia());
                yield Stream.of(new Message.User(text(user)));
            }
            case AssistantMessage assistant -> {
                requireText("assistant", assistant.getMedia());
                yield Stream.of(new Message.Assistant(
                        text(assistant),
                        assistant.getToolCalls().stream()
                                .map(call -> new ToolCall(call.id(), call.name(), call.arguments()))
                                .toList()));
            }
            case ToolResponseMessage results ->
                results.getResponses().stream()
                        .map(result -> new Message.ToolResult(result.id(), result.responseData()));
            default ->
                throw unsupported("a message of type " + message.getMessageType()
                        + " is not supported; send system, user, assistant and tool messages");
        };
    }

    private static void requireText(String role, List<Media> media) {
        if (!media.isEmpty()) {
            throw unsupported("a " + role + " message has media of type "
                    + media.getFirst().getMimeType() + ", which the model cannot read; send text alone");
        }
    }

    private static RequestException unsupported(String message) {
        return RequestException.of(RequestException.Category.NOT_IMPLEMENTED, message);
    }

    private static String text(org.springframework.ai.chat.messages.Message message) {
        return orEmpty(message.getText());
    }

    private static String orEmpty(@Nullable String text) {
        return text == null ? "" : text;
    }
}
