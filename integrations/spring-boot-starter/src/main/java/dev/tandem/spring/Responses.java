package dev.tandem.spring;

import dev.tandem.library.Answer;
import dev.tandem.library.ToolCall;
import java.util.List;
import java.util.Map;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.metadata.ChatGenerationMetadata;
import org.springframework.ai.chat.metadata.ChatResponseMetadata;
import org.springframework.ai.chat.metadata.DefaultUsage;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.Generation;

/** Turns the library's answers into Spring AI's. */
final class Responses {
    /** The metadata of a message in which Spring AI's client for OpenAI keeps reasoning. */
    static final String REASONING = "reasoningContent";

    private Responses() {}

    /** A complete answer. */
    static ChatResponse whole(Answer.Result result, String id, String model) {
        return response(result, result.text(), reasoning(result.reasoning()), id, model);
    }

    /** The end of a stream: calls, reason and usage, after text and reasoning were sent. */
    static ChatResponse end(Answer.Result result, String id, String model) {
        return response(result, "", Map.of(), id, model);
    }

    private static ChatResponse response(
            Answer.Result result, String text, Map<String, Object> properties, String id, String model) {
        AssistantMessage message = AssistantMessage.builder()
                .content(text)
                .properties(properties)
                .toolCalls(result.calls().stream().map(Responses::call).toList())
                .build();
        ChatGenerationMetadata metadata = ChatGenerationMetadata.builder()
                .finishReason(result.finishReason())
                .build();
        return new ChatResponse(
                List.of(new Generation(message, metadata)),
                ChatResponseMetadata.builder()
                        .id(id)
                        .model(model)
                        .usage(new DefaultUsage(
                                result.usage().prompt(), result.usage().output()))
                        .build());
    }

    /** A piece of a stream. */
    static ChatResponse piece(String text, String reasoning, String id, String model) {
        AssistantMessage message = AssistantMessage.builder()
                .content(text)
                .properties(reasoning(reasoning))
                .build();
        return new ChatResponse(
                List.of(new Generation(message)),
                ChatResponseMetadata.builder().id(id).model(model).build());
    }

    private static Map<String, Object> reasoning(String reasoning) {
        return reasoning.isEmpty() ? Map.of() : Map.of(REASONING, reasoning);
    }

    private static AssistantMessage.ToolCall call(ToolCall call) {
        return new AssistantMessage.ToolCall(call.id(), "function", call.tool(), call.arguments());
    }
}
