package dev.tandem.spring;

import dev.tandem.library.Answer;
import dev.tandem.library.ChatRequest;
import dev.tandem.library.Tandem;
import dev.tandem.text.answer.AnswerPart;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import io.micrometer.observation.contextpropagation.ObservationThreadLocalAccessor;
import java.util.UUID;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.MessageAggregator;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.chat.observation.ChatModelObservationConvention;
import org.springframework.ai.chat.observation.ChatModelObservationDocumentation;
import org.springframework.ai.chat.observation.DefaultChatModelObservationConvention;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import reactor.adapter.JdkFlowAdapter;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Answers with a model in this process.
 *
 * <p>Options of a prompt are taken as they are; a prompt without options has the model's. Tools are called by Spring
 * AI's {@code ChatClient}, and not here. An answer that fails throws the library's exceptions.
 *
 * <p>Owned by: thread-safe. The caller closes the {@link Tandem}.
 */
public final class TandemChatModel implements ChatModel {
    /** The provider's name in observations. */
    static final String PROVIDER = "tandem";

    private static final ChatModelObservationConvention DEFAULT_CONVENTION =
            new DefaultChatModelObservationConvention();

    private final Tandem tandem;
    private final TandemChatOptions options;
    private final ObservationRegistry observations;
    private final ChatModelObservationConvention convention;

    /** A model with all defaults, which nobody observes. */
    public TandemChatModel(Tandem tandem) {
        this(tandem, TandemChatOptions.builder().build(), ObservationRegistry.NOOP, DEFAULT_CONVENTION);
    }

    /**
     * A model with defaults.
     *
     * @param options of prompts that have none
     * @param observations receives one observation per answer
     * @param convention how observations are named
     */
    public TandemChatModel(
            Tandem tandem,
            TandemChatOptions options,
            ObservationRegistry observations,
            ChatModelObservationConvention convention) {
        this.tandem = tandem;
        this.options = options.getModel() == null
                ? options.mutate().model(tandem.model()).build()
                : options;
        this.observations = observations;
        this.convention = convention;
    }

    @Override
    public TandemChatOptions getOptions() {
        return options;
    }

    @Override
    public ChatResponse call(Prompt prompt) {
        ChatRequest request = request(prompt);
        ChatModelObservationContext context = context(prompt, false);
        return observation(context).observe(() -> {
            try (Answer answer = tandem.chat(request)) {
                ChatResponse response = Responses.whole(answer.result(), id(), tandem.model());
                context.setResponse(response);
                return response;
            }
        });
    }

    /** Cancelling the subscription ends the generation. */
    @Override
    public Flux<ChatResponse> stream(Prompt prompt) {
        return Flux.deferContextual(view -> {
            ChatRequest request = request(prompt);
            ChatModelObservationContext context = context(prompt, true);
            Observation observation = observation(context);
            observation.parentObservation(view.getOrDefault(ObservationThreadLocalAccessor.KEY, null));
            observation.start();
            // The prompt is tokenized on a thread that may wait. The answer's own thread sends the parts.
            Flux<ChatResponse> responses = Flux.using(() -> tandem.chat(request), this::responses, Answer::close)
                    .subscribeOn(Schedulers.boundedElastic())
                    .doOnError(observation::error)
                    .doFinally(signal -> observation.stop())
                    .contextWrite(inner -> inner.put(ObservationThreadLocalAccessor.KEY, observation));
            return new MessageAggregator().aggregate(responses, context::setResponse);
        });
    }

    private Flux<ChatResponse> responses(Answer answer) {
        String id = id();
        String model = tandem.model();
        return JdkFlowAdapter.flowPublisherToFlux(answer.publisher())
                .<ChatResponse>handle((part, sink) -> {
                    switch (part) {
                        case AnswerPart.Content content -> sink.next(Responses.piece(content.text(), "", id, model));
                        case AnswerPart.Reasoning more -> sink.next(Responses.piece("", more.text(), id, model));
                        // Spring AI has no form for parts of calls: the end of the stream has them whole
                        case AnswerPart.Call call -> {}
                        case AnswerPart.Arguments arguments -> {}
                    }
                })
                .concatWith(Mono.fromSupplier(() -> Responses.end(answer.result(), id, model)));
    }

    private ChatRequest request(Prompt prompt) {
        ChatOptions own = prompt.getOptions();
        return Requests.of(prompt.getInstructions(), own == null ? options : own);
    }

    private ChatModelObservationContext context(Prompt prompt, boolean streaming) {
        Prompt observed = prompt.getOptions() == null
                ? prompt.mutate().chatOptions(options).build()
                : prompt;
        return ChatModelObservationContext.builder()
                .prompt(observed)
                .provider(PROVIDER)
                .streaming(streaming)
                .build();
    }

    private Observation observation(ChatModelObservationContext context) {
        return ChatModelObservationDocumentation.CHAT_MODEL_OPERATION.observation(
                convention, DEFAULT_CONVENTION, () -> context, observations);
    }

    private static String id() {
        return "tandem-" + UUID.randomUUID();
    }
}
