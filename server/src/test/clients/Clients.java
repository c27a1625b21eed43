import com.anthropic.client.AnthropicClient;
import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.helpers.MessageAccumulator;
import com.anthropic.models.messages.ContentBlockParam;
import com.anthropic.models.messages.Message;
import com.anthropic.models.messages.MessageCreateParams;
import com.anthropic.models.messages.StopReason;
import com.anthropic.models.messages.Tool;
import com.anthropic.models.messages.ToolResultBlockParam;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.JsonValue;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.helpers.ResponseAccumulator;
import com.openai.models.FunctionDefinition;
import com.openai.models.FunctionParameters;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionFunctionTool;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.responses.FunctionTool;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseFunctionToolCall;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseOutputItem;
import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ChatMessage;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ResponseFormat;
import dev.langchain4j.model.chat.request.ResponseFormatType;
import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonSchema;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.model.output.FinishReason;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Chat, streams, a tool loop and structured output with clients for Java, unmodified: java Clients.java URL. */
final class Clients {
    private static final String ASK = "How warm is it in Bern?";
    private static final String RESULT = "21 degrees";
    private static final String ANSWER = "It is 21 degrees.";
    private static final String DESCRIPTION = "The weather of a city";
    private static final Map<String, Map<String, String>> PROPERTIES = Map.of("city", Map.of("type", "string"));

    /** What the model answers as JSON. */
    public static final class Weather {
        public String city = "";
        public int degrees;
    }

    private Clients() {}

    public static void main(String[] arguments) {
        String url = arguments[0];
        OpenAIClient openai = OpenAIOkHttpClient.builder()
                .baseUrl(url + "/v1")
                .apiKey("unused")
                .maxRetries(0)
                .build();
        AnthropicClient anthropic = AnthropicOkHttpClient.builder()
                .baseUrl(url)
                .apiKey("unused")
                .maxRetries(0)
                .build();
        String model = openai.models().list().data().getFirst().id();
        openaiChat(openai, model);
        openaiResponses(openai, model);
        anthropicMessages(anthropic, model);
        langchain4jChat(url, model);
        langchain4jStreams(url, model);
        openai.close();
        anthropic.close();
        System.out.println("all fine");
        System.out.flush();
        System.exit(0); // threads of the clients' connections live on for a minute
    }

    private static void check(String name, boolean holds, Object seen) {
        if (!holds) {
            throw new AssertionError(name + " failed: " + seen);
        }
        System.out.println(name + ": fine");
    }

    private static String weather(Object city) {
        return city.equals("Bern") ? RESULT : "no such city: " + city;
    }

    private static String weatherOf(String arguments) {
        return weather(arguments.replaceAll("\\s", "").equals("{\"city\":\"Bern\"}") ? "Bern" : arguments);
    }

    private static void openaiChat(OpenAIClient client, String model) {
        FunctionParameters schema = FunctionParameters.builder()
                .putAdditionalProperty("type", JsonValue.from("object"))
                .putAdditionalProperty("properties", JsonValue.from(PROPERTIES))
                .putAdditionalProperty("required", JsonValue.from(List.of("city")))
                .build();
        ChatCompletionFunctionTool tool = ChatCompletionFunctionTool.builder()
                .function(FunctionDefinition.builder()
                        .name("weather")
                        .description(DESCRIPTION)
                        .parameters(schema)
                        .build())
                .build();
        ChatCompletionCreateParams ask = ChatCompletionCreateParams.builder()
                .model(model)
                .addUserMessage(ASK)
                .addTool(tool)
                .build();
        ChatCompletion.Choice first =
                client.chat().completions().create(ask).choices().getFirst();
        var call = first.message().toolCalls().orElseThrow().getFirst().asFunction();
        check("openai chat", first.finishReason().equals(ChatCompletion.Choice.FinishReason.TOOL_CALLS), first);
        ChatCompletionCreateParams second = ask.toBuilder()
                .addMessage(first.message())
                .addMessage(ChatCompletionToolMessageParam.builder()
                        .toolCallId(call.id())
                        .content(weatherOf(call.function().arguments()))
                        .build())
                .build();
        ChatCompletion.Choice last =
                client.chat().completions().create(second).choices().getFirst();
        check("openai chat loop", last.message().content().orElse("").equals(ANSWER), last);
        ChatCompletionAccumulator whole = ChatCompletionAccumulator.create();
        try (var stream = client.chat().completions().createStreaming(ask)) {
            stream.stream().forEach(whole::accumulate);
        }
        var streamed = whole.chatCompletion()
                .choices()
                .getFirst()
                .message()
                .toolCalls()
                .orElseThrow()
                .getFirst()
                .asFunction();
        check("openai chat stream", streamed.function().equals(call.function()), streamed);
        Weather parsed = client.chat()
                .completions()
                .create(ChatCompletionCreateParams.builder()
                        .model(model)
                        .addUserMessage("as JSON")
                        .responseFormat(Weather.class)
                        .build())
                .choices()
                .getFirst()
                .message()
                .content()
                .orElseThrow();
        check("openai chat structured", parsed.city.equals("Bern") && parsed.degrees == 21, parsed.city);
    }

    private static void openaiResponses(OpenAIClient client, String model) {
        FunctionTool tool = FunctionTool.builder()
                .name("weather")
                .description(DESCRIPTION)
                .strict(false)
                .parameters(FunctionTool.Parameters.builder()
                        .putAdditionalProperty("type", JsonValue.from("object"))
                        .putAdditionalProperty("properties", JsonValue.from(PROPERTIES))
                        .putAdditionalProperty("required", JsonValue.from(List.of("city")))
                        .build())
                .build();
        ResponseCreateParams ask = ResponseCreateParams.builder()
                .model(model)
                .input(ASK)
                .addTool(tool)
                .build();
        Response first = client.responses().create(ask);
        ResponseFunctionToolCall call = first.output().getLast().asFunctionCall();
        check("openai responses", first.output().getFirst().isReasoning(), first);
        ResponseInputItem result = ResponseInputItem.ofFunctionCallOutput(ResponseInputItem.FunctionCallOutput.builder()
                .callId(call.callId())
                .output(weatherOf(call.arguments()))
                .build());
        Response last = client.responses()
                .create(ask.toBuilder()
                        .inputOfResponse(List.of(result))
                        .previousResponseId(first.id())
                        .build());
        check("openai responses loop", text(last.output().getLast()).equals(ANSWER), last);
        ResponseAccumulator whole = ResponseAccumulator.create();
        try (var stream = client.responses().createStreaming(ask)) {
            stream.stream().forEach(whole::accumulate);
        }
        ResponseFunctionToolCall streamed =
                whole.response().output().getLast().asFunctionCall();
        check("openai responses stream", streamed.arguments().equals(call.arguments()), streamed);
        Weather parsed = client.responses()
                .create(ResponseCreateParams.builder()
                        .model(model)
                        .input("as JSON")
                        .text(Weather.class)
                        .build())
                .output()
                .getLast()
                .message()
                .orElseThrow()
                .content()
                .getFirst()
                .asOutputText();
        check("openai responses structured", parsed.city.equals("Bern") && parsed.degrees == 21, parsed.city);
    }

    private static String text(ResponseOutputItem item) {
        return item.asMessage().content().getFirst().asOutputText().text();
    }

    private static void anthropicMessages(AnthropicClient client, String model) {
        Tool tool = Tool.builder()
                .name("weather")
                .description(DESCRIPTION)
                .inputSchema(Tool.InputSchema.builder()
                        .properties(Tool.InputSchema.Properties.builder()
                                .putAdditionalProperty(
                                        "city", com.anthropic.core.JsonValue.from(PROPERTIES.get("city")))
                                .build())
                        .addRequired("city")
                        .build())
                .build();
        MessageCreateParams ask = MessageCreateParams.builder()
                .model(model)
                .maxTokens(2000)
                .enabledThinking(1024)
                .addTool(tool)
                .addUserMessage(ASK)
                .build();
        Message first = client.messages().create(ask);
        check("anthropic messages", first.stopReason().orElseThrow().equals(StopReason.TOOL_USE), first);
        check("anthropic thinking", first.content().getFirst().asThinking().thinking().equals("Look it up."), first);
        var call = first.content().getLast().asToolUse();
        ToolResultBlockParam result = ToolResultBlockParam.builder()
                .toolUseId(call.id())
                .content(weather(city(call._input())))
                .build();
        Message last = client.messages()
                .create(ask.toBuilder()
                        .addMessage(first)
                        .addUserMessageOfContentBlockParams(List.of(ContentBlockParam.ofToolResult(result)))
                        .build());
        check("anthropic loop", last.content().getLast().asText().text().equals(ANSWER), last);
        MessageAccumulator whole = MessageAccumulator.create();
        try (var stream = client.messages().createStreaming(ask)) {
            stream.stream().forEach(whole::accumulate);
        }
        Message streamed = whole.message();
        check(
                "anthropic stream",
                city(streamed.content().getLast().asToolUse()._input()).equals("Bern"),
                streamed);
        Weather parsed = client.messages()
                .create(MessageCreateParams.builder()
                        .model(model)
                        .maxTokens(200)
                        .addUserMessage("as JSON")
                        .outputConfig(Weather.class)
                        .build())
                .content()
                .getFirst()
                .asText()
                .text();
        check("anthropic structured", parsed.city.equals("Bern") && parsed.degrees == 21, parsed.city);
    }

    private static Object city(com.anthropic.core.JsonValue input) {
        return input.convert(Map.class).get("city");
    }

    private static ChatRequest langchain4jRequest(ChatMessage... messages) {
        return ChatRequest.builder()
                .messages(messages)
                .toolSpecifications(ToolSpecification.builder()
                        .name("weather")
                        .description(DESCRIPTION)
                        .parameters(JsonObjectSchema.builder()
                                .addStringProperty("city")
                                .required("city")
                                .build())
                        .build())
                .build();
    }

    private static ChatRequest langchain4jJson() {
        return ChatRequest.builder()
                .messages(UserMessage.from("as JSON"))
                .responseFormat(ResponseFormat.builder()
                        .type(ResponseFormatType.JSON)
                        .jsonSchema(JsonSchema.builder()
                                .name("weather")
                                .rootElement(JsonObjectSchema.builder()
                                        .addStringProperty("city")
                                        .addIntegerProperty("degrees")
                                        .required("city", "degrees")
                                        .build())
                                .build())
                        .build())
                .build();
    }

    /** A tool loop and structured output; chat answers a request. */
    private static void langchain4j(String name, java.util.function.Function<ChatRequest, ChatResponse> chat) {
        UserMessage ask = UserMessage.from(ASK);
        ChatResponse first = chat.apply(langchain4jRequest(ask));
        AiMessage message = first.aiMessage();
        check(name, first.finishReason() == FinishReason.TOOL_EXECUTION, first);
        check(name + " thinking", "Look it up.".equals(message.thinking()), first);
        check(name + " usage", first.tokenUsage().outputTokenCount() > 0, first);
        ToolExecutionRequest call = message.toolExecutionRequests().getFirst();
        ToolExecutionResultMessage result = ToolExecutionResultMessage.from(call, weatherOf(call.arguments()));
        ChatResponse last = chat.apply(langchain4jRequest(ask, message, result));
        check(name + " loop", last.aiMessage().text().equals(ANSWER), last);
        check(name + " loop's end", last.finishReason() == FinishReason.STOP, last);
        ChatResponse json = chat.apply(langchain4jJson());
        check(name + " structured", json.aiMessage().text().contains("\"city\": \"Bern\""), json);
    }

    private static void langchain4jChat(String url, String model) {
        OpenAiChatModel client = OpenAiChatModel.builder()
                .baseUrl(url + "/v1")
                .apiKey("unused")
                .modelName(model)
                .returnThinking(true)
                .strictJsonSchema(true)
                .maxRetries(0)
                .build();
        langchain4j("langchain4j chat", client::chat);
    }

    private static void langchain4jStreams(String url, String model) {
        OpenAiStreamingChatModel client = OpenAiStreamingChatModel.builder()
                .baseUrl(url + "/v1")
                .apiKey("unused")
                .modelName(model)
                .returnThinking(true)
                .strictJsonSchema(true)
                .build();
        langchain4j("langchain4j stream", request -> {
            CompletableFuture<ChatResponse> whole = new CompletableFuture<>();
            client.chat(request, new StreamingChatResponseHandler() {
                @Override
                public void onCompleteResponse(ChatResponse response) {
                    whole.complete(response);
                }

                @Override
                public void onError(Throwable error) {
                    whole.completeExceptionally(error);
                }
            });
            return whole.join();
        });
    }
}
