import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.ai.anthropic.AnthropicChatModel;
import org.springframework.ai.anthropic.AnthropicChatOptions;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.openai.OpenAiChatModel;
import org.springframework.ai.openai.OpenAiChatOptions;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.function.FunctionToolCallback;

/** Chat, streams, a tool loop and structured output with Spring AI, unmodified: java SpringAi.java URL MODEL. */
public final class SpringAi {
    private static final String ASK = "How warm is it in Bern?";
    private static final String RESULT = "21 degrees";
    private static final String ANSWER = "It is 21 degrees.";

    /** What the model answers as JSON. */
    public record Weather(String city, int degrees) {}

    /** The argument of the tool. */
    public record City(String city) {}

    private SpringAi() {}

    public static void main(String[] arguments) {
        String url = arguments[0];
        String model = arguments[1];
        client(
                "spring openai",
                OpenAiChatModel.builder()
                        .options(OpenAiChatOptions.builder()
                                .baseUrl(url + "/v1")
                                .apiKey("unused")
                                .maxRetries(0)
                                .model(model)
                                .build())
                        .build());
        client(
                "spring anthropic",
                AnthropicChatModel.builder()
                        .options(AnthropicChatOptions.builder()
                                .baseUrl(url)
                                .apiKey("unused")
                                .maxRetries(0)
                                .model(model)
                                .maxTokens(200)
                                .build())
                        .build());
        System.out.println("all fine");
        System.out.flush();
        System.exit(0); // threads of the clients' connections live on for a minute
    }

    private static void client(String name, ChatModel model) {
        ChatClient client = ChatClient.create(model);
        String plain = client.prompt("Say hello").call().content();
        check(name + " chat", "Hello.".equals(plain), plain);
        List<String> pieces =
                client.prompt("Say hello").stream().content().collectList().block();
        check(name + " stream", pieces.size() > 1 && String.join("", pieces).equals("Hello."), pieces);
        List<City> asked = new CopyOnWriteArrayList<>();
        ToolCallback tool = FunctionToolCallback.builder("weather", (City city) -> {
                    asked.add(city);
                    return RESULT;
                })
                .description("The weather of a city")
                .inputType(City.class)
                .build();
        City bern = new City("Bern");
        String answer = client.prompt(ASK).toolCallbacks(tool).call().content();
        check(name + " tool loop", ANSWER.equals(answer) && asked.equals(List.of(bern)), answer + " " + asked);
        pieces = client.prompt(ASK).toolCallbacks(tool).stream().content().collectList().block();
        answer = String.join("", pieces);
        check(
                name + " tool loop of streams",
                answer.endsWith(ANSWER) && asked.equals(List.of(bern, bern)),
                answer + " " + asked);
        Weather weather = client.prompt("as JSON").call().entity(Weather.class);
        check(name + " parsed", new Weather("Bern", 21).equals(weather), weather);
        weather = client.prompt("as JSON")
                .call()
                .entity(Weather.class, ChatClient.EntityParamSpec::useProviderStructuredOutput);
        check(name + " structured", new Weather("Bern", 21).equals(weather), weather);
    }

    private static void check(String name, boolean holds, Object seen) {
        if (!holds) {
            System.out.println(name + " failed: " + seen);
            System.exit(1);
        }
        System.out.println(name + ": fine");
    }
}
