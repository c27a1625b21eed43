package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.sampling.PromptScorer;
import dev.tandem.server.http.Exchange;
import dev.tandem.text.answer.AnswerPart;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Serves {@code POST /v1/completions}. */
final class CompletionHandler {
    private static final int DEFAULT_MAX_TOKENS = 16;
    private static final String MAX_TOKENS = "max_tokens";

    private static final AnswerWriter.Shape SHAPE = new AnswerWriter.Shape() {
        @Override
        public String object(boolean stream) {
            return "text_completion";
        }

        @Override
        public void writePart(ObjectNode choice, AnswerPart part, IntFunction<String> callId) {
            if (part instanceof AnswerPart.Content content) { // all text is content
                choice.put("text", content.text());
            }
        }

        @Override
        public void writeEnd(ObjectNode choice) {
            choice.put("text", "");
        }

        @Override
        public void writeWhole(ObjectNode choice, AnswerChoice answer, IntFunction<String> callId) {
            choice.put("text", answer.content.toString());
        }

        @Override
        public void writePrompt(ObjectNode root, ObjectNode choice, ArrayNode logprobs) {
            choice.set("prompt_logprobs", logprobs);
        }

        @Override
        public void writeLogprobs(ObjectNode choice, Logprobs logprobs) {
            logprobs.writeCompletion(choice);
        }
    };

    /** @param text what {@code echo} puts before the answer */
    record Prompt(int[] tokens, String text) {}

    /** A parsed request, ready for the engine. */
    record Prepared(
            List<Prompt> prompts,
            int n,
            boolean echo,
            SamplingParams sampling,
            Optional<GrammarFields.Constraint> constraint,
            AnswerWriter.OutputOptions output,
            PromptLogprobs promptLogprobs,
            boolean skipSpecial,
            int priority,
            LatencyTargets targets,
            PrefixCaching caching,
            Deadline deadline) {
        /**
         * The request for its one prompt, without {@code echo}.
         *
         * @throws RequestException when there are several
         */
        AnswerRequest only() {
            if (prompts.size() > 1) {
                throw RequestException.bad(
                        "prompt", "prompt has " + prompts.size() + " prompts; in the model's own process, send one");
            }
            return new AnswerRequest(
                    prompts.getFirst().tokens(),
                    sampling,
                    constraint,
                    AnswerReading.TEXT,
                    skipSpecial,
                    priority,
                    targets,
                    caching,
                    deadline);
        }
    }

    private final ServedModel model;
    private final RequestParser parser;
    private final PromptReader promptReader;
    private final TokenizerPool pool;

    CompletionHandler(ServedModel model, RequestParser parser, PromptReader promptReader, TokenizerPool pool) {
        this.model = model;
        this.parser = parser;
        this.promptReader = promptReader;
        this.pool = pool;
    }

    void serve(Exchange exchange, String requestId, long created) throws InterruptedException {
        long start = Deadline.now();
        Prepared request = pool.run(
                exchange,
                () -> prepare(parser.parse(exchange.body(), ApiFields.Endpoint.COMPLETIONS), exchange::header, start));
        exchange.releaseBody();
        String id = "cmpl-" + requestId;
        int n = request.n();
        List<Prompt> prompts = request.prompts();
        int count = prompts.size() * n;
        int promptTokens =
                prompts.stream().mapToInt(prompt -> prompt.tokens().length).sum();
        AnswerWriter writer =
                new AnswerWriter(id, created, model, SHAPE, request.output(), AnswerReading.TEXT, count, promptTokens);
        for (int i = 0; request.echo() && i < count; i++) {
            writer.prefix(i, prompts.get(i / n).text());
        }
        List<PromptScorer> scorers = prompts.stream()
                .flatMap(prompt -> request.promptLogprobs().scorer(prompt.tokens()).stream())
                .toList();
        writer.score(request.promptLogprobs(), scorers);
        try (RequestGrammar grammar = RequestGrammar.compile(model.grammars(), request.constraint());
                Generation generation = start(exchange, id, request, scorers, grammar.constrain(request.sampling()))) {
            writer.write(exchange, generation);
        }
    }

    private Generation start(
            Exchange exchange, String id, Prepared request, List<PromptScorer> scorers, SamplingParams sampling) {
        int n = request.n();
        return Generation.start(
                model.engine(), exchange, request.prompts().size() * n, request.deadline(), (index, sink) -> {
                    Request one = new Request(
                                    id + "-" + index,
                                    request.prompts().get(index / n).tokens(),
                                    n == 1 ? sampling : sampling.forChoice(index % n),
                                    request.priority(),
                                    request.targets(),
                                    model.decoder(request.skipSpecial()),
                                    sink)
                            .withCaching(request.caching());
                    // the choices of a prompt share its scores
                    return scorers.isEmpty() || index % n > 0 ? one : one.withScorer(scorers.get(index / n));
                });
    }

    /**
     * Checks a request and tokenizes its prompts.
     *
     * @param headers value of a header by its name in lower case; empty when it is absent
     * @param start when its timeout began to run
     */
    Prepared prepare(RequestFields fields, UnaryOperator<String> headers, long start) {
        ModelName.check(fields, model);
        int n = SamplingFields.choices(fields);
        int bestOf = fields.integer("best_of", n);
        if (bestOf != n) {
            throw RequestException.bad(
                    "best_of", "best_of is " + bestOf + "; it is only supported when it equals n, which is " + n);
        }
        boolean echo = fields.flag("echo", false);
        List<Prompt> prompts = prompts(fields, n, echo);
        OptionalInt maxTokens = maxTokens(fields, prompts);
        boolean promptAlone = echo && maxTokens.equals(OptionalInt.of(0));
        SamplingParams sampling = TokenMaskFields.mask(
                SamplingFields.read(
                        fields,
                        model.defaults(),
                        promptAlone ? OptionalInt.of(1) : maxTokens, // the engine ends a request with a token
                        MAX_TOKENS,
                        logprobs(fields)),
                fields,
                model.tokenizer());
        AnswerWriter.OutputOptions output = StreamFields.read(fields, sampling.logprobs() >= 0);
        return new Prepared(
                prompts,
                n,
                echo,
                sampling,
                GrammarFields.read(fields, parser),
                promptAlone ? output.alone() : output,
                PromptLogprobs.read(fields, echo, output, sampling.logprobs()),
                fields.flag("skip_special_tokens", true),
                fields.integer("priority", 0),
                SamplingFields.targets(fields),
                model.cacheSaltFrom().read(fields, headers),
                Deadline.read(fields, start));
    }

    /** The default is clamped to the context; a client's own value is not, so that a too large one is refused later. */
    private OptionalInt maxTokens(RequestFields fields, List<Prompt> prompts) {
        OptionalInt wanted = fields.integer(MAX_TOKENS);
        if (wanted.isPresent()) {
            return wanted;
        }
        int longest = prompts.stream()
                .mapToInt(prompt -> prompt.tokens().length)
                .max()
                .orElseThrow();
        int rest = model.engine().config().contextTokens() - longest;
        return OptionalInt.of(Math.clamp(rest, 1, DEFAULT_MAX_TOKENS));
    }

    private static int logprobs(RequestFields fields) {
        Optional<JsonNode> wanted = fields.field("logprobs");
        if (wanted.isEmpty()) {
            return -1;
        }
        int alternatives = RequestFields.whole("logprobs", wanted.get());
        if (alternatives < 0 || alternatives > SamplingParams.MAX_LOGPROBS) {
            throw RequestException.bad(
                    "logprobs",
                    "logprobs is " + alternatives + "; it must lie in [0, " + SamplingParams.MAX_LOGPROBS + "]");
        }
        return alternatives;
    }

    private List<Prompt> prompts(RequestFields fields, int n, boolean echo) {
        JsonNode node = fields.field("prompt")
                .orElseThrow(() -> RequestException.bad(
                        "prompt",
                        "prompt is missing; it must be a string, a list of strings, token ids, or lists of token ids"));
        boolean addSpecial = fields.flag("add_special_tokens", true);
        boolean one = node.isString()
                || node.isArray() && !node.isEmpty() && node.get(0).isIntegralNumber();
        if (!one && (!node.isArray() || node.isEmpty())) {
            throw RequestFields.wrong("prompt", node, "a string, a list of strings, token ids, or lists of token ids");
        }
        Generation.checkCount(model.engine(), one ? 1 : node.size(), n);
        List<Prompt> prompts = new ArrayList<>();
        if (one) {
            prompts.add(prompt(fields, node, addSpecial, echo));
        } else {
            node.forEach(item -> prompts.add(prompt(fields, item, addSpecial, echo)));
        }
        return prompts;
    }

    private Prompt prompt(RequestFields fields, JsonNode node, boolean addSpecial, boolean echo) {
        boolean truncates = fields.field("truncate_prompt_tokens").isPresent();
        int room = fields.integer(MAX_TOKENS, DEFAULT_MAX_TOKENS);
        if (!node.isArray()) {
            String text = RequestFields.string("prompt", node);
            int[] all = promptReader.encode("prompt", text, addSpecial, truncates);
            int[] tokens = promptReader.truncate(fields, all, room);
            boolean cut = tokens.length < all.length;
            return new Prompt(tokens, echo && cut ? model.tokenizer().decode(tokens, false) : text);
        }
        if (!truncates) {
            promptReader.checkTokens("prompt", node.size());
        }
        int[] tokens = new int[node.size()];
        for (int i = 0; i < tokens.length; i++) {
            tokens[i] = RequestFields.whole("prompt", node.get(i));
        }
        int[] kept = promptReader.truncate(fields, tokens, room);
        return new Prompt(kept, echo ? model.tokenizer().decode(kept, false) : "");
    }
}
