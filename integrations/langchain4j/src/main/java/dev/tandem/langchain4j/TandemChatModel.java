package dev.tandem.langchain4j;

import dev.langchain4j.model.chat.Capability;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.tandem.library.Answer;
import dev.tandem.library.Tandem;
import java.util.List;
import java.util.Set;

/**
 * Answers with a model in this process.
 *
 * <p>Owned by: thread-safe. The caller closes the {@link Tandem}.
 */
public final class TandemChatModel implements ChatModel {
    private final Tandem tandem;
    private final ChatRequestParameters defaults;
    private final List<ChatModelListener> listeners;

    /** A model without defaults and listeners of its own. */
    public TandemChatModel(Tandem tandem) {
        this(tandem, ChatRequestParameters.builder().build(), List.of());
    }

    /**
     * A model with defaults.
     *
     * @param defaults of requests that leave parameters out
     * @param listeners of requests and responses
     */
    public TandemChatModel(Tandem tandem, ChatRequestParameters defaults, List<ChatModelListener> listeners) {
        this.tandem = tandem;
        this.defaults = Requests.named(defaults, tandem.model());
        this.listeners = List.copyOf(listeners);
    }

    @Override
    public ChatResponse doChat(ChatRequest request) {
        try (Answer answer = tandem.chat(Requests.of(request))) {
            return Responses.of(answer.result(), tandem.model());
        } catch (RuntimeException e) {
            throw Responses.exception(e);
        }
    }

    @Override
    public ChatRequestParameters defaultRequestParameters() {
        return defaults;
    }

    @Override
    public List<ChatModelListener> listeners() {
        return listeners;
    }

    @Override
    public Set<Capability> supportedCapabilities() {
        return Set.of(Capability.RESPONSE_FORMAT_JSON_SCHEMA);
    }
}
