package dev.tandem.langchain4j;

import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.Content;
import dev.langchain4j.data.message.SystemMessage;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.exception.UnsupportedFeatureException;
import dev.langchain4j.internal.Json;
import dev.langchain4j.internal.JsonSchemaElementUtils;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.tandem.library.ChatRequest;
import dev.tandem.library.Message;
import dev.tandem.library.ResponseFormat;
import dev.tandem.library.Sampling;
import dev.tandem.library.Tool;
import dev.tandem.library.ToolCall;
import dev.tandem.library.ToolChoice;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Turns LangChain4j's requests into the library's. */
final class Requests {
    private static final String NO_PARAMETERS = "{\"type\": \"object\", \"properties\": {}}";

    private Requests() {}

    /** The parameters with the model's name, unless they name one. */
    static ChatRequestParameters named(ChatRequestParameters parameters, String model) {
        return parameters.defaultedBy(
                ChatRequestParameters.builder().modelName(model).build());
    }

    static ChatRequest of(dev.langchain4j.model.chat.request.ChatRequest request) {
        ChatRequest translated = ChatRequest.of(
                        request.messages().stream().map(Requests::message).toList())
                .withSampling(sampling(request))
                .withTools(orEmpty(request.toolSpecifications()).stream()
                        .map(Requests::tool)
                        .toList())
                .withToolChoice(choice(request.toolChoice()))
                .withFormat(format(request.responseFormat()));
        return request.modelName() == null ? translated : translated.withModel(request.modelName());
    }

    private static <T> List<T> orEmpty(@Nullable List<T> list) {
        return list == null ? List.of() : list;
    }

    private static Sampling sampling(dev.langchain4j.model.chat.request.ChatRequest request) {
        Sampling.Builder sampling = Sampling.builder().stop(orEmpty(request.stopSequences()));
        Optional.ofNullable(request.temperature()).ifPresent(sampling::temperature);
        Optional.ofNullable(request.topP()).ifPresent(sampling::topP);
        Optional.ofNullable(request.topK()).ifPresent(sampling::topK);
        Optional.ofNullable(request.frequencyPenalty()).ifPresent(sampling::frequencyPenalty);
        Optional.ofNullable(request.presencePenalty()).ifPresent(sampling::presencePenalty);
        Optional.ofNullable(request.maxOutputTokens()).ifPresent(sampling::maxTokens);
        return sampling.build();
    }

    private static Tool tool(ToolSpecification tool) {
        return new Tool(
                tool.name(),
                tool.description() == null ? "" : tool.description(),
                tool.parameters() == null
                        ? NO_PARAMETERS
                        : Json.toJson(JsonSchemaElementUtils.toMap(tool.parameters())));
    }

    private static ToolChoice choice(dev.langchain4j.model.chat.request.@Nullable ToolChoice choice) {
        return switch (choice) {
            case null -> new ToolChoice.Auto();
            case AUTO -> new ToolChoice.Auto();
            case REQUIRED -> new ToolChoice.Required();
            case NONE -> new ToolChoice.None();
        };
    }

    private static ResponseFormat format(dev.langchain4j.model.chat.request.@Nullable ResponseFormat format) {
        if (format == null || format.type() == ResponseFormatType.TEXT) {
            return new ResponseFormat.Text();
        }
        return format.jsonSchema() == null
                ? new ResponseFormat.JsonObject()
                : new ResponseFormat.JsonSchema(
                        format.jsonSchema().name(),
                        Json.toJson(
                                JsonSchemaElementUtils.toMap(format.jsonSchema().rootElement(), true)));
    }

    private static Message message(ChatMessage message) {
        return switch (message) {
            case SystemMessage system -> new Message.System(system.text());
            case UserMessage user -> new Message.User(text(user.contents()));
            case AiMessage ai ->
                new Message.Assistant(
                        ai.text() == null ? "" : ai.text(),
                        ai.toolExecutionRequests().stream()
                                .map(call -> new ToolCall(call.id(), call.name(), call.arguments()))
                                .toList());
            case ToolExecutionResultMessage result -> new Message.ToolResult(result.id(), result.text());
            default ->
                throw new UnsupportedFeatureException("messages of type " + message.type()
                        + " are not supported; use system, user, AI and tool result messages");
        };
    }

    private static String text(List<Content> contents) {
        List<String> texts = new ArrayList<>();
        for (Content content : contents) {
            if (!(content instanceof TextContent text)) {
                throw new UnsupportedFeatureException("content of type "
                        + content.type().name().toLowerCase(Locale.ROOT) + " is not supported; send text alone");
            }
            texts.add(text.text());
        }
        return String.join("\n", texts);
    }
}
