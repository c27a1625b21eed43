package dev.tandem.server.openai;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.PrefixCaching;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import java.util.Optional;
import java.util.OptionalInt;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Serves {@code POST /v1/chat/completions}. */
final class ChatHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final AnswerWriter.Shape SHAPE = new AnswerWriter.Shape() {
        @Override
        public String object(boolean stream) {
            return stream ? "chat.completion.chunk" : "chat.completion";
        }

        @Override
        public Optional<ObjectNode> opening() {
            ObjectNode node = JSON.createObjectNode();
            node.putObject("delta").put("role", "assistant").put("content", "");
            return Optional.of(node);
        }

        @Override
        public void writePiece(ObjectNode choice, String text) {
            choice.putObject("delta").put("content", text);
        }

        @Override
        public void writeEnd(ObjectNode choice) {
            choice.putObject("delta");
        }

        @Override
        public void writeWhole(ObjectNode choice, String text) {
            choice.putObject("message").put("role", "assistant").put("content", text);
        }

        @Override
        public void writeLogprobs(ObjectNode choice, Logprobs logprobs) {
            logprobs.writeChat(choice);
        }
    };

    /** A parsed request, ready for the engine. */
    private record Prepared(
            int[] prompt,
            int n,
            SamplingParams sampling,
            Optional<GrammarFields.Constraint> constraint,
            AnswerWriter.OutputOptions output,
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
            new AnswerWriter(id, created, model, SHAPE, request.output(), request.n(), request.prompt().length)
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
                                model.decoder(request.skipSpecial()),
                                sink)
                        .withCaching(request.caching()));
    }

    private Prepared prepare(Exchange exchange, long start) {
        RequestFields fields = parser.parse(exchange.body(), ApiFields.Endpoint.CHAT);
        ModelName.check(fields, model);
        refuseTools(fields);
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
        return new Prepared(
                prompt,
                n,
                sampling,
                GrammarFields.read(fields, parser),
                StreamFields.read(fields, sampling.logprobs() >= 0),
                fields.flag("skip_special_tokens", true),
                fields.integer("priority", 0),
                SamplingFields.targets(fields),
                model.cacheSaltFrom().read(fields, exchange),
                Deadline.read(fields, start));
    }

    private static int logprobs(RequestFields fields) {
        boolean wanted = fields.flag("logprobs", false);
        int top = fields.integer("top_logprobs", 0);
        if (top != 0 && !wanted) {
            throw RequestException.bad("top_logprobs", "top_logprobs needs logprobs to be true");
        }
        return wanted ? top : -1;
    }

    /** Refuses tools unless the request forbids to call them. */
    private static void refuseTools(RequestFields fields) {
        Optional<JsonNode> choice = fields.field("tool_choice");
        String name = choice.map(node -> node.asString("")).orElse("auto");
        if (choice.isPresent() && choice.get().isObject()) {
            throw RequestException.bad(
                    "tool_choice",
                    "a named tool_choice is not supported: tool calls cannot be parsed yet; leave it out");
        }
        if (!name.equals("none") && !name.equals("auto")) {
            throw RequestException.bad(
                    "tool_choice",
                    "tool_choice is " + RequestFields.shown(choice.orElseThrow())
                            + "; tool calls cannot be parsed yet, and only \"none\" and, without tools, \"auto\" "
                            + "are supported");
        }
        fields.field("tools").ifPresent(tools -> {
            if (!tools.isArray()) {
                throw RequestFields.wrong("tools", tools, "a list of tools");
            }
            if (!tools.isEmpty() && !name.equals("none")) {
                throw RequestException.bad(
                        "tools",
                        "tools are not supported: tool calls cannot be parsed yet; leave tools out or set "
                                + "tool_choice to \"none\"");
            }
        });
    }
}
