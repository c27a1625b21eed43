package dev.tandem.server.openai;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.server.http.Exchange;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.UnaryOperator;

/** Serves {@code POST /v1/chat/completions}. */
final class ChatHandler {
    private static final AnswerWriter.Shape SHAPE = new ChatShape();

    /** A parsed request. */
    record Prepared(AnswerRequest answer, int n, AnswerWriter.OutputOptions output, PromptLogprobs promptLogprobs) {}

    private final ServedModel model;
    private final RequestParser parser;
    private final ChatPrompt prompts;
    private final PromptReader promptReader;
    private final TokenizerPool pool;

    ChatHandler(
            ServedModel model,
            RequestParser parser,
            ChatPrompt prompts,
            PromptReader promptReader,
            TokenizerPool pool) {
        this.promptReader = promptReader;
        this.model = model;
        this.parser = parser;
        this.prompts = prompts;
        this.pool = pool;
    }

    void serve(Exchange exchange, String requestId, long created) throws InterruptedException {
        long start = Deadline.now();
        Prepared request = pool.run(
                exchange,
                () -> prepare(parser.parse(exchange.body(), ApiFields.Endpoint.CHAT), exchange::header, start));
        exchange.releaseBody();
        String id = "chatcmpl-" + requestId;
        AnswerRequest answer = request.answer();
        List<PromptScorer> scorers =
                request.promptLogprobs().scorer(answer.prompt()).stream().toList();
        AnswerWriter writer = new AnswerWriter(
                id, created, model, SHAPE, request.output(), answer.reading(), request.n(), answer.prompt().length);
        writer.score(request.promptLogprobs(), scorers);
        try (RequestGrammar grammar = RequestGrammar.compile(model.grammars(), answer.constraint());
                Generation generation = start(exchange, id, request, scorers, grammar.constrain(answer.sampling()))) {
            writer.write(exchange, generation);
        }
    }

    private Generation start(
            Exchange exchange, String id, Prepared request, List<PromptScorer> scorers, SamplingParams sampling) {
        AnswerRequest answer = request.answer();
        return Generation.start(model.engine(), exchange, request.n(), answer.deadline(), (index, sink) -> {
            Request choice = answer.choice(
                    model, id + "-" + index, request.n() == 1 ? sampling : sampling.forChoice(index), sink);
            // the choices share the prompt's scores
            return scorers.isEmpty() || index > 0 ? choice : choice.withScorer(scorers.getFirst());
        });
    }

    /**
     * Checks a request, renders its conversation and tokenizes it.
     *
     * @param headers value of a header by its name in lower case; empty when it is absent
     * @param start when its timeout began to run
     */
    Prepared prepare(RequestFields fields, UnaryOperator<String> headers, long start) {
        ModelName.check(fields, model);
        ToolUse tools = ToolFields.read(fields, ToolList.CHAT, model);
        int n = SamplingFields.choices(fields);
        Generation.checkCount(model.engine(), 1, n);
        OptionalInt older = fields.integer("max_tokens");
        OptionalInt newer = fields.integer("max_completion_tokens");
        boolean isNewer = newer.isPresent();
        Optional<GrammarFields.Constraint> demanded = tools.insteadOfCalls(GrammarFields.read(fields, parser));
        int[] prompt = promptReader.truncate(
                fields, prompts.read(fields, tools, demanded), (isNewer ? newer : older).orElse(1));
        SamplingParams sampling = TokenMaskFields.mask(
                SamplingFields.read(
                        fields,
                        model.defaults(),
                        isNewer ? newer : older,
                        isNewer ? "max_completion_tokens" : "max_tokens",
                        logprobs(fields)),
                fields,
                model.tokenizer());
        AnswerReading reading = AnswerReading.of(
                model,
                tools,
                demanded,
                prompt,
                fields.flag("include_reasoning", true),
                ReasoningFields.budget(fields, model));
        AnswerRequest answer = new AnswerRequest(
                reading.begin(prompt, model),
                sampling,
                CallGrammar.of(demanded, tools, reading, model),
                reading,
                fields.flag("skip_special_tokens", true),
                fields.integer("priority", 0),
                SamplingFields.targets(fields),
                model.cacheSaltFrom().read(fields, headers),
                Deadline.read(fields, start));
        AnswerWriter.OutputOptions output = StreamFields.read(fields, sampling.logprobs() >= 0);
        return new Prepared(answer, n, output, PromptLogprobs.read(fields, false, output, -1));
    }

    private static int logprobs(RequestFields fields) {
        boolean wanted = fields.flag("logprobs", false);
        int top = fields.integer("top_logprobs", 0);
        if (top != 0 && !wanted) {
            throw RequestException.bad("top_logprobs", "top_logprobs needs logprobs to be true");
        }
        return wanted ? top : -1;
    }
}
