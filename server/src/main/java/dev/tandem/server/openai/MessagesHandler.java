package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.databind.ObjectMapper;

/** Serves {@code POST /v1/messages} and {@code POST /v1/messages/count_tokens}, Anthropic's Messages API. */
final class MessagesHandler {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MAX_TOKENS = "max_tokens";

    private record Prepared(AnswerRequest answer, boolean stream) {}

    private final ServedModel model;
    private final RequestParser parser;
    private final MessagesPrompt prompts;
    private final TokenizerPool pool;

    MessagesHandler(ServedModel model, RequestParser parser, ChatPrompt chat, TokenizerPool pool) {
        this.model = model;
        this.parser = parser;
        this.prompts = new MessagesPrompt(chat);
        this.pool = pool;
    }

    void serve(Exchange exchange) throws InterruptedException {
        long start = Deadline.now();
        Prepared request = pool.run(exchange, () -> prepare(exchange, start));
        exchange.releaseBody();
        String id = "msg_" + exchange.uniqueId();
        AnswerRequest answer = request.answer();
        try (RequestGrammar grammar = RequestGrammar.compile(model.grammars(), answer.constraint());
                Generation generation = Generation.start(
                        model.engine(),
                        exchange,
                        1,
                        answer.deadline(),
                        (index, sink) -> answer.choice(model, id, grammar.constrain(answer.sampling()), sink))) {
            MessagesWriter writer = new MessagesWriter(exchange, generation, id, model, answer);
            if (request.stream()) {
                writer.stream();
            } else {
                writer.answer();
            }
        }
    }

    void countTokens(Exchange exchange) throws InterruptedException {
        int tokens = pool.run(exchange, () -> {
            RequestFields fields = parser.parse(exchange.body(), ApiFields.Endpoint.COUNT_TOKENS);
            ModelName.check(fields, model);
            ToolUse tools = MessagesTools.read(fields, model);
            return prompt(fields, tools, tools.insteadOfCalls(GrammarFields.readOutput(fields, parser))).length;
        });
        exchange.respond(
                200,
                "application/json",
                JSON.writeValueAsBytes(JSON.createObjectNode().put("input_tokens", tokens)));
    }

    private Prepared prepare(Exchange exchange, long start) {
        RequestFields fields = parser.parse(exchange.body(), ApiFields.Endpoint.MESSAGES);
        ModelName.check(fields, model);
        OptionalInt maxTokens = fields.integer(MAX_TOKENS);
        if (maxTokens.isEmpty()) {
            throw RequestException.bad(
                    MAX_TOKENS, "max_tokens is missing; it must be the max number of tokens of the answer");
        }
        ServedModel.SamplingDefaults defaults = model.defaults();
        SamplingParams sampling = SamplingParams.builder()
                .temperature(fields.number("temperature", defaults.temperature()))
                .topP(fields.number("top_p", defaults.topP()))
                .topK(fields.integer("top_k", defaults.topK()))
                .repetitionPenalty(defaults.repetitionPenalty())
                .maxTokens(maxTokens)
                .maxTokensField(MAX_TOKENS)
                .stop(stops(fields))
                .build();
        ToolUse tools = MessagesTools.read(fields, model);
        Optional<GrammarFields.Constraint> demanded = tools.insteadOfCalls(GrammarFields.readOutput(fields, parser));
        int[] prompt = prompt(fields, tools, demanded);
        ReasoningFields.Budget budget = ReasoningFields.thinkingBudget(fields, maxTokens.getAsInt());
        AnswerReading reading = AnswerReading.of(model, tools, demanded, prompt, true, budget);
        return new Prepared(
                AnswerRequest.of(
                        model,
                        prompt,
                        sampling,
                        CallGrammar.of(demanded, tools, reading, model),
                        reading,
                        model.cacheSaltFrom().read(fields, exchange::header),
                        Deadline.read(fields, start)),
                fields.flag("stream", false));
    }

    private int[] prompt(RequestFields fields, ToolUse tools, Optional<GrammarFields.Constraint> demanded) {
        ReasoningFields.Thinking thinking = ReasoningFields.thinking(fields, model);
        demanded.filter(constraint -> !AnswerReading.leavesRoomForReasoning(constraint, model.answers()))
                .ifPresent(constraint -> AnswerReading.refuseTogether(
                        constraint.field(), "thinking", thinking == ReasoningFields.Thinking.ENABLED));
        return prompts.read(fields, tools, ReasoningFields.variables(thinking, model));
    }

    private static List<String> stops(RequestFields fields) {
        List<String> stops = new ArrayList<>();
        fields.field("stop_sequences").ifPresent(list -> {
            if (!list.isArray()) {
                throw RequestFields.wrong("stop_sequences", list, "a list of strings");
            }
            list.forEach(item -> stops.add(RequestFields.string("stop_sequences", item)));
        });
        return stops;
    }
}
