package dev.tandem.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.library.ScriptedTandem;
import dev.tandem.library.Tandem;
import dev.tandem.library.ToolChoice;
import dev.tandem.server.ScriptedServer;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.messages.UserMessage;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.chat.observation.DefaultChatModelObservationConvention;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.content.Media;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.function.FunctionToolCallback;
import org.springframework.util.MimeTypeUtils;

/** Answers, streams, tools and structured output by Spring AI's own client, on a model that answers by a script. */
class TandemChatModelTest {
    private static final String ASK = "How warm is it in Bern?";
    private static final String RESULT = "21 degrees";
    private static final String ANSWER = "It is 21 degrees.";

    private static final ScriptedServer SERVER = ScriptedServer.ofClients();
    private static final Tandem TANDEM = ScriptedTandem.of(SERVER.model());

    private final TandemChatModel model = new TandemChatModel(TANDEM);
    private final ChatClient client = ChatClient.create(model);
    private final List<City> asked = new CopyOnWriteArrayList<>();
    private final ToolCallback tool = FunctionToolCallback.builder("weather", (City city) -> {
                asked.add(city);
                return RESULT;
            })
            .description("The weather of a city")
            .inputType(City.class)
            .build();

    /** What the model answers as JSON. */
    record Weather(String city, int degrees) {}

    /** The argument of the tool. */
    record City(String city) {}

    @AfterAll
    static void close() {
        SERVER.close();
    }

    @Test
    void aWholeAnswerHasTextReasonUsageAndModel() {
        ChatResponse response = model.call(new Prompt("Say hello"));
        assertThat(response.getResult().getOutput().getText()).isEqualTo("Hello.");
        assertThat(response.getResult().getMetadata().getFinishReason()).isEqualTo("stop");
        assertThat(response.getMetadata().getUsage().getPromptTokens()).isPositive();
        assertThat(response.getMetadata().getUsage().getCompletionTokens()).isEqualTo("Hello.".length() + 1);
        assertThat(response.getMetadata().getModel()).isEqualTo(TANDEM.model());
    }

    @Test
    void aStreamHasPiecesAndThenReasonAndUsage() {
        List<ChatResponse> responses =
                model.stream(new Prompt("Say hello")).collectList().block();
        assertThat(responses).hasSizeGreaterThan(2);
        StringBuilder text = new StringBuilder();
        responses.forEach(
                response -> text.append(response.getResult().getOutput().getText()));
        assertThat(text).hasToString("Hello.");
        ChatResponse end = responses.getLast();
        assertThat(end.getResult().getMetadata().getFinishReason()).isEqualTo("stop");
        assertThat(end.getMetadata().getUsage().getCompletionTokens()).isEqualTo("Hello.".length() + 1);
        assertThat(responses.getFirst().getMetadata().getId())
                .isEqualTo(end.getMetadata().getId());
    }

    @Test
    void optionsReachTheModel() {
        ChatResponse response = model.call(
                new Prompt("Say hello", ChatOptions.builder().maxTokens(3).build()));
        assertThat(response.getResult().getOutput().getText()).isEqualTo("Hel");
        assertThat(response.getResult().getMetadata().getFinishReason()).isEqualTo("length");
        assertThat(client.prompt("Say hello")
                        .options(ChatOptions.builder().stopSequences(List.of("lo")))
                        .call()
                        .content())
                .isEqualTo("Hel");
    }

    @Test
    void toolsAreCalledByTheClient() {
        City bern = new City("Bern");
        assertThat(client.prompt(ASK).tools(tool).call().content()).isEqualTo(ANSWER);
        assertThat(asked).containsExactly(bern);
        List<String> pieces =
                client.prompt(ASK).tools(tool).stream().content().collectList().block();
        assertThat(String.join("", pieces)).endsWith(ANSWER);
        assertThat(asked).containsExactly(bern, bern);
    }

    @Test
    void aToolThatMayNotBeCalledIsNot() {
        TandemChatOptions options = TandemChatOptions.builder()
                .toolCallbacks(tool)
                .toolChoice(new ToolChoice.None())
                .build();
        ChatResponse response = model.call(new Prompt(ASK, options));
        assertThat(response.hasToolCalls()).isFalse();
        options = options.mutate().toolChoice(new ToolChoice.Auto()).build();
        assertThat(model.call(new Prompt(ASK, options)).hasToolCalls()).isTrue();
    }

    @Test
    void structuredOutputIsHeldToItsSchema() {
        Weather weather = client.prompt("as JSON")
                .call()
                .entity(Weather.class, ChatClient.EntityParamSpec::useProviderStructuredOutput);
        assertThat(weather).isEqualTo(new Weather("Bern", 21));
        assertThat(SERVER.lastGrammar()).contains("degrees");
    }

    @Test
    void whatTheModelCannotReadIsRefused() {
        UserMessage picture = UserMessage.builder()
                .text("What is this?")
                .media(new Media(MimeTypeUtils.IMAGE_PNG, URI.create("https://example.org/a.png")))
                .build();
        assertThatThrownBy(() -> model.call(new Prompt(picture)))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("image/png");
        assertThatThrownBy(() -> model.call(
                        new Prompt("hi", ChatOptions.builder().model("another").build())))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("another");
        assertThatThrownBy(() -> model.stream(new Prompt(
                                "hi", ChatOptions.builder().temperature(3.0).build()))
                        .blockLast())
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("temperature is 3.0");
    }

    @Test
    void cancellingAStreamEndsTheGeneration() throws InterruptedException {
        AtomicInteger steps = new AtomicInteger();
        Semaphore mayStep = new Semaphore(5);
        try (ScriptedServer server = ScriptedServer.of(prompt -> "x".repeat(3000))) {
            server.beforeStep(() -> {
                mayStep.acquireUninterruptibly();
                steps.incrementAndGet();
            });
            Tandem tandem = ScriptedTandem.of(server.model());
            List<ChatResponse> pieces = new TandemChatModel(tandem)
                    .stream(new Prompt("Go on")).take(1).collectList().block();
            assertThat(pieces).hasSize(1);
            mayStep.release(10_000);
            assertThat(tandem.drain(Duration.ofMinutes(2))).isTrue();
        }
        assertThat(steps).hasValueLessThan(20);
    }

    @Test
    void observationsHaveTheWholeAnswer() {
        List<ChatModelObservationContext> seen = new CopyOnWriteArrayList<>();
        ObservationRegistry registry = ObservationRegistry.create();
        registry.observationConfig().observationHandler(new ObservationHandler<ChatModelObservationContext>() {
            @Override
            public void onStop(ChatModelObservationContext context) {
                seen.add(context);
            }

            @Override
            public boolean supportsContext(Observation.Context context) {
                return context instanceof ChatModelObservationContext;
            }
        });
        TandemChatModel observed = new TandemChatModel(
                TANDEM, TandemChatOptions.builder().build(), registry, new DefaultChatModelObservationConvention());
        observed.call(new Prompt("Say hello"));
        observed.stream(new Prompt("Say hello")).blockLast();
        assertThatThrownBy(() -> observed.call(
                        new Prompt("hi", ChatOptions.builder().temperature(3.0).build())))
                .isInstanceOf(RequestException.class);
        assertThat(seen).hasSize(3);
        for (ChatModelObservationContext context : seen.subList(0, 2)) {
            assertThat(context.getResponse().getResult().getOutput().getText()).isEqualTo("Hello.");
            assertThat(context.getOperationMetadata().provider()).isEqualTo("tandem");
            assertThat(context.getContextualName()).isEqualTo("chat " + TANDEM.model());
        }
        assertThat(seen.getLast().getError()).isInstanceOf(RequestException.class);
    }
}
