package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import java.util.Arrays;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.IntStream;

/** Serves {@code POST /v1/chat/completions}. */
final class ChatHandler {
    private static final AnswerWriter.Shape SHAPE = new ChatShape();
    /** Enough for the marker that begins reasoning, also where each character is a token. */
    private static final int PROMPT_END_TOKENS = 64;

    /** A parsed request, ready for the engine. */
    private record Prepared(
            int[] prompt,
            int n,
            SamplingParams sampling,
            Optional<GrammarFields.Constraint> constraint,
            AnswerWriter.OutputOptions output,
            AnswerReading reading,
            boolean skipSpecial,
            int priority,
            LatencyTargets targets,
            PrefixCaching caching,
            Deadline deadline) {}

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
        Prepared request = pool.run(exchange, () -> prepare(exchange, start));
        exchange.releaseBody();
        String id = "chatcmpl-" + requestId;
        try (RequestGrammar grammar = RequestGrammar.compile(model.grammars(), request.constraint());
                Generation generation = start(exchange, id, request, grammar.constrain(request.sampling()))) {
            new AnswerWriter(
                            id,
                            created,
                            model,
                            SHAPE,
                            request.output(),
                            request.reading(),
                            request.n(),
                            request.prompt().length)
                    .write(exchange, generation);
        }
    }

    private Generation start(Exchange exchange, String id, Prepared request, SamplingParams sampling) {
        return Generation.start(
                model.engine(),
                exchange,
                request.n(),
                request.deadline(),
                (index, sink) -> new Request(
                                id + "-" + index,
                                request.prompt(),
                                request.n() == 1 ? sampling : sampling.forChoice(index),
                                request.priority(),
                                request.targets(),
                                model.decoder(
                                        request.skipSpecial(), request.reading().markers()),
                                sink)
                        .withCaching(request.caching()));
    }

    private Prepared prepare(Exchange exchange, long start) {
        RequestFields fields = parser.parse(exchange.body(), ApiFields.Endpoint.CHAT);
        ModelName.check(fields, model);
        ToolUse tools = ToolFields.read(fields, model);
        int n = SamplingFields.choices(fields);
        Generation.checkCount(model.engine(), 1, n);
        OptionalInt older = fields.integer("max_tokens");
        OptionalInt newer = fields.integer("max_completion_tokens");
        boolean isNewer = newer.isPresent();
        int[] prompt = promptReader.truncate(fields, prompts.read(fields), (isNewer ? newer : older).orElse(1));
        SamplingParams sampling = SamplingFields.read(
                fields,
                model.defaults(),
                isNewer ? newer : older,
                isNewer ? "max_completion_tokens" : "max_tokens",
                logprobs(fields));
        Optional<GrammarFields.Constraint> demanded = GrammarFields.read(fields, parser);
        AnswerReading reading = reading(fields, tools, prompt, demanded);
        return new Prepared(
                reading.startsOverBudget() ? endReasoning(reading, prompt) : prompt,
                n,
                sampling,
                demanded.or(() -> CallGrammar.of(tools, reading, model)),
                StreamFields.read(fields, sampling.logprobs() >= 0),
                reading,
                fields.flag("skip_special_tokens", true),
                fields.integer("priority", 0),
                SamplingFields.targets(fields),
                model.cacheSaltFrom().read(fields, exchange),
                Deadline.read(fields, start));
    }

    private AnswerReading reading(
            RequestFields fields, ToolUse tools, int[] prompt, Optional<GrammarFields.Constraint> demanded) {
        OptionalInt budget = ReasoningFields.budget(fields, model);
        if (demanded.isPresent()) {
            String field = demanded.get().field();
            refuseTogether(field, "tools that may be called", !tools.tools().isEmpty());
            refuseTogether(field, ReasoningFields.BUDGET, budget.isPresent());
            return AnswerReading.TEXT; // the grammar leaves no room for reasoning
        }
        tools.constrainedBy().ifPresent(field -> refuseTogether(field, ReasoningFields.BUDGET, budget.isPresent()));
        int[] end = Arrays.copyOfRange(prompt, Math.max(0, prompt.length - PROMPT_END_TOKENS), prompt.length);
        return new AnswerReading(
                model.answers(),
                tools.names(),
                tools.parallel(),
                tools.demand().isPresent(),
                model.tokenizer().decode(end, false),
                fields.flag("include_reasoning", true),
                budget);
    }

    private static void refuseTogether(String field, String other, boolean isPresent) {
        if (isPresent) {
            throw RequestException.bad(field, field + " cannot be combined with " + other + "; leave one of them out");
        }
    }

    private int[] endReasoning(AnswerReading reading, int[] prompt) {
        int[] ending = model.tokenizer().encode(reading.ending().orElseThrow(), false);
        return IntStream.concat(IntStream.of(prompt), IntStream.of(ending)).toArray();
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
