package dev.tandem.langchain4j;

import dev.langchain4j.internal.InternalStreamingChatResponseHandlerUtils;
import dev.langchain4j.model.chat.Capability;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.listener.ChatModelListener;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.request.ChatRequestParameters;
import dev.langchain4j.model.chat.response.CompleteToolCall;
import dev.langchain4j.model.chat.response.PartialToolCall;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.chat.response.StreamingHandle;
import dev.tandem.library.Answer;
import dev.tandem.library.Tandem;
import dev.tandem.library.ToolCall;
import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;

/**
 * Streams the answers of a model in this process. A handler runs on a virtual thread per answer; a slow one delays
 * nothing but itself.
 *
 * <p>Owned by: thread-safe. The caller closes the {@link Tandem}.
 */
public final class TandemStreamingChatModel implements StreamingChatModel {
    private final Tandem tandem;
    private final ChatRequestParameters defaults;
    private final List<ChatModelListener> listeners;

    /** A model without defaults and listeners of its own. */
    public TandemStreamingChatModel(Tandem tandem) {
        this(tandem, ChatRequestParameters.builder().build(), List.of());
    }

    /**
     * A model with defaults.
     *
     * @param defaults of requests that leave parameters out
     * @param listeners of requests and responses
     */
    public TandemStreamingChatModel(Tandem tandem, ChatRequestParameters defaults, List<ChatModelListener> listeners) {
        this.tandem = tandem;
        this.defaults = Requests.named(defaults, tandem.model());
        this.listeners = List.copyOf(listeners);
    }

    @Override
    public void doChat(ChatRequest request, StreamingChatResponseHandler handler) {
        start(request, handler);
    }

    /** The thread that sends the answer; an unsupported request is refused at once. */
    Thread start(ChatRequest request, StreamingChatResponseHandler handler) {
        dev.tandem.library.ChatRequest translated = Requests.of(request);
        return Thread.ofVirtual().name("tandem-langchain4j").start(() -> answer(translated, handler));
    }

    private void answer(dev.tandem.library.ChatRequest request, StreamingChatResponseHandler handler) {
        try (Answer answer = tandem.chat(request)) {
            send(answer, handler);
        } catch (RuntimeException e) {
            fail(handler, e);
        }
    }

    private void send(Answer answer, StreamingChatResponseHandler handler) {
        Calls calls = new Calls(answer, handler);
        try {
            Iterator<AnswerPart> parts = answer.parts();
            while (parts.hasNext()) {
                calls.send(parts.next());
            }
            Answer.Result result = answer.result();
            calls.complete(result.calls().size(), result.calls());
            if (!calls.handle.isCancelled()) {
                InternalStreamingChatResponseHandlerUtils.onCompleteResponse(
                        handler, Responses.of(result, tandem.model()));
            }
        } catch (RuntimeException e) {
            if (!calls.handle.isCancelled()) {
                fail(handler, e);
            }
        }
    }

    private static void fail(StreamingChatResponseHandler handler, RuntimeException error) {
        InternalStreamingChatResponseHandlerUtils.withLoggingExceptions(
                () -> handler.onError(Responses.exception(error)));
    }

    /**
     * Hands the parts of one answer to its handler.
     *
     * <p>Owned by: the answer's virtual thread; any thread may cancel.
     */
    private static final class Calls {
        private final Answer answer;
        private final StreamingChatResponseHandler handler;
        private final Handle handle;
        private final List<String> names = new ArrayList<>();
        private final List<StringBuilder> arguments = new ArrayList<>();
        private int completed;

        Calls(Answer answer, StreamingChatResponseHandler handler) {
            this.answer = answer;
            this.handler = handler;
            this.handle = new Handle(answer);
        }

        void send(AnswerPart part) {
            if (handle.isCancelled()) {
                return; // what is left until the generation has ended
            }
            switch (part) {
                case AnswerPart.Content content ->
                    InternalStreamingChatResponseHandlerUtils.onPartialResponse(handler, content.text(), handle);
                case AnswerPart.Reasoning reasoning ->
                    InternalStreamingChatResponseHandlerUtils.onPartialThinking(handler, reasoning.text(), handle);
                case AnswerPart.Call call -> {
                    complete(names.size(), started());
                    names.add(call.name());
                    arguments.add(new StringBuilder());
                }
                case AnswerPart.Arguments more -> {
                    arguments.get(more.index()).append(more.text());
                    InternalStreamingChatResponseHandlerUtils.onPartialToolCall(
                            handler,
                            PartialToolCall.builder()
                                    .index(more.index())
                                    .id(answer.callId(more.index()))
                                    .name(names.get(more.index()))
                                    .partialArguments(more.text())
                                    .build(),
                            handle);
                }
            }
        }

        private List<ToolCall> started() {
            List<ToolCall> calls = new ArrayList<>();
            for (int i = 0; i < names.size(); i++) {
                calls.add(new ToolCall(
                        answer.callId(i), names.get(i), arguments.get(i).toString()));
            }
            return calls;
        }

        /** Tells the handler of the calls up to {@code end} that it does not know to be complete. */
        void complete(int end, List<ToolCall> calls) {
            for (; completed < end && !handle.isCancelled(); completed++) {
                InternalStreamingChatResponseHandlerUtils.onCompleteToolCall(
                        handler, new CompleteToolCall(completed, Responses.request(calls.get(completed))));
            }
        }
    }

    /** Ends an answer on demand. */
    private static final class Handle implements StreamingHandle {
        private final Answer answer;
        private volatile boolean cancelled;

        Handle(Answer answer) {
            this.answer = answer;
        }

        @Override
        public void cancel() {
            cancelled = true;
            answer.close();
        }

        @Override
        public boolean isCancelled() {
            return cancelled;
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
