package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import tools.jackson.databind.node.ObjectNode;

/**
 * The APIs for chat and completions without HTTP, for a program that has the model in its own process. Fields, checks
 * and defaults are those of the server.
 *
 * <p>Owned by: thread-safe.
 */
public final class LocalApi {
    /** Fields that shape an HTTP answer, or ask for more than one. */
    private static final List<String> OF_HTTP = List.of(
            "n",
            "best_of",
            "stream",
            "stream_options",
            "host_usage",
            "logprobs",
            "top_logprobs",
            "prompt_logprobs",
            "echo");

    private final ServedModel model;
    private final TokenizerPool pool;
    private final RequestParser parser;
    private final ChatHandler chat;
    private final CompletionHandler completion;

    /** @param pool renders and tokenizes the prompts; the caller closes it */
    public LocalApi(ServedModel model, TokenizerPool pool) {
        this.model = model;
        this.pool = pool;
        PromptReader prompts =
                new PromptReader(model.tokenizer(), model.engine().config().contextTokens());
        this.parser = new RequestParser(prompts);
        this.chat = new ChatHandler(model, parser, new ChatPrompt(model, prompts, parser), prompts, pool);
        this.completion = new CompletionHandler(model, parser, prompts, pool);
    }

    /**
     * Starts an answer to a conversation.
     *
     * @param request as the body of {@code POST /v1/chat/completions}, for one answer
     * @throws RequestException when the request is refused
     */
    public LocalAnswer chat(ObjectNode request) throws InterruptedException {
        long start = Deadline.now();
        return start(pool.run(() -> chat.prepare(fields(request, ApiFields.Endpoint.CHAT), LocalApi::noHeader, start)
                .answer()));
    }

    /**
     * Starts the continuation of a text.
     *
     * @param request as the body of {@code POST /v1/completions}, for one prompt and one answer
     * @throws RequestException when the request is refused
     */
    public LocalAnswer complete(ObjectNode request) throws InterruptedException {
        long start = Deadline.now();
        return start(pool.run(() ->
                        completion.prepare(fields(request, ApiFields.Endpoint.COMPLETIONS), LocalApi::noHeader, start))
                .only());
    }

    /** The number of tokens of a text, without special ones. */
    public int countTokens(String text) throws InterruptedException {
        return pool.run(() -> model.tokenizer().encode(text, false).length);
    }

    private RequestFields fields(ObjectNode request, ApiFields.Endpoint endpoint) {
        for (String name : OF_HTTP) {
            if (request.has(name)) {
                throw RequestException.bad(
                        name,
                        name + " is for answers over HTTP; in the model's own process, leave it out and ask for one"
                                + " answer at a time");
            }
        }
        return parser.check(request, endpoint);
    }

    /** A request inside the process has no header. */
    private static String noHeader(String name) {
        return "";
    }

    /** Frees the grammar at once: submitting has made the request's matcher of it. */
    private LocalAnswer start(AnswerRequest answer) {
        String id = "local-" + UUID.randomUUID();
        try (RequestGrammar grammar = RequestGrammar.compile(model.grammars(), answer.constraint())) {
            Generation generation = Generation.start(
                    model.engine(),
                    1,
                    answer.deadline(),
                    Optional.empty(),
                    (index, sink) -> answer.choice(model, id, grammar.constrain(answer.sampling()), sink));
            return new LocalAnswer(id, answer, generation, new AnswerStream(model, generation, answer.reading()));
        }
    }
}
