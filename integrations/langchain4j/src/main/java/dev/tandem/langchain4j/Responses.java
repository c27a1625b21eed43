package dev.tandem.langchain4j;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.exception.InternalServerException;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.exception.RateLimitException;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.output.FinishReason;
import dev.langchain4j.model.output.TokenUsage;
import dev.tandem.engine.request.RequestException;
import dev.tandem.library.Answer;
import dev.tandem.library.AnswerException;
import dev.tandem.library.ToolCall;
import java.util.UUID;

/** Turns the library's answers and errors into LangChain4j's. */
final class Responses {
    private Responses() {}

    static ChatResponse of(Answer.Result result, String model) {
        AiMessage.Builder message = AiMessage.builder()
                .toolExecutionRequests(
                        result.calls().stream().map(Responses::request).toList());
        if (!result.text().isEmpty()) {
            message.text(result.text());
        }
        if (!result.reasoning().isEmpty()) {
            message.thinking(result.reasoning());
        }
        return ChatResponse.builder()
                .aiMessage(message.build())
                .id("tandem-" + UUID.randomUUID())
                .modelName(model)
                .tokenUsage(
                        new TokenUsage(result.usage().prompt(), result.usage().output()))
                .finishReason(reason(result.finishReason()))
                .build();
    }

    static ToolExecutionRequest request(ToolCall call) {
        return ToolExecutionRequest.builder()
                .id(call.id())
                .name(call.tool())
                .arguments(call.arguments())
                .build();
    }

    private static FinishReason reason(String reason) {
        return switch (reason) {
            case "stop" -> FinishReason.STOP;
            case "length" -> FinishReason.LENGTH;
            case "tool_calls" -> FinishReason.TOOL_EXECUTION;
            default -> FinishReason.OTHER;
        };
    }

    /** The error as LangChain4j's own kinds; others are returned as they are. */
    static RuntimeException exception(RuntimeException error) {
        return switch (error) {
            case RequestException refused ->
                switch (refused.category()) {
                    case BAD_REQUEST, TOO_LARGE -> new InvalidRequestException(refused.getMessage(), refused);
                    case NOT_FOUND -> new ModelNotFoundException(refused.getMessage(), refused);
                    case OVERLOADED -> new RateLimitException(refused.getMessage(), refused);
                    case NOT_IMPLEMENTED -> new UnsupportedFeatureException(refused.getMessage());
                    case UNAVAILABLE -> new InternalServerException(refused.getMessage(), refused);
                };
            case AnswerException failed -> new InternalServerException(failed.getMessage(), failed);
            default -> error;
        };
    }
}
