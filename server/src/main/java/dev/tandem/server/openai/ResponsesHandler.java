package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.server.http.Exchange;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.InstantSource;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.UUID;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/** Serves {@code /v1/responses}: create, retrieve and cancel. */
final class ResponsesHandler {
    private static final Logger LOG = System.getLogger(ResponsesHandler.class.getName());
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String MAX_OUTPUT_TOKENS = "max_output_tokens";
    /** OpenAI's bounds of metadata. */
    private static final int MAX_METADATA = 16;

    private static final int MAX_METADATA_LENGTH = 512;

    private static final String TOOL_CHOICE = "tool_choice";
    private static final String PARALLEL = "parallel_tool_calls";

    /** A parsed request. */
    private record Prepared(AnswerRequest answer, ArrayNode conversation, boolean stream, ResponseObject.Echo echo) {}

    private final ServedModel model;
    private final RequestParser parser;
    private final ChatPrompt prompts;
    private final TokenizerPool pool;
    private final InstantSource time;
    private final ResponseStore store;

    ResponsesHandler(
            ServedModel model, RequestParser parser, ChatPrompt prompts, TokenizerPool pool, InstantSource time) {
        this.model = model;
        this.parser = parser;
        this.prompts = prompts;
        this.pool = pool;
        this.time = time;
        this.store = new ResponseStore(ResponseStore.DEFAULT_LIMIT);
    }

    void create(Exchange exchange) throws InterruptedException {
        long start = Deadline.now();
        Prepared request = pool.run(exchange, () -> prepare(exchange, start));
        exchange.releaseBody();
        // who knows the id may read the response: no part of it comes from a client
        String id = "resp_" + UUID.randomUUID().toString().replace("-", "");
        ResponseObject object =
                new ResponseObject(id, time.instant().getEpochSecond(), model.name(), request.answer(), request.echo());
        ResponseRun run = start(exchange, request, object);
        if (request.echo().background()) {
            Thread.ofVirtual().name("response").start(() -> background(run));
            respond(exchange, object.unfinished(ResponseObject.Status.QUEUED));
        } else if (request.stream()) {
            run.stream(exchange);
        } else {
            run.answer(exchange);
        }
    }

    private ResponseRun start(Exchange exchange, Prepared request, ResponseObject object) {
        AnswerRequest answer = request.answer();
        RequestGrammar grammar = RequestGrammar.compile(model.grammars(), answer.constraint());
        Generation.RequestMaker maker =
                (index, sink) -> answer.choice(model, object.id(), grammar.constrain(answer.sampling()), sink);
        try {
            Generation generation = request.echo().background()
                    ? Generation.start(model.engine(), 1, answer.deadline(), exchange.trace(), maker)
                    : Generation.start(model.engine(), exchange, 1, answer.deadline(), maker);
            Optional<ResponseStore> kept = request.echo().store() ? Optional.of(store) : Optional.empty();
            return new ResponseRun(model, object, grammar, generation, request.conversation(), kept);
        } catch (RuntimeException e) {
            grammar.close();
            throw e;
        }
    }

    private static void background(ResponseRun run) {
        try {
            run.background();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "a response in the background failed", e);
        }
    }

    void retrieve(Exchange exchange, String id) {
        respond(exchange, store.get(id).response());
    }

    void cancel(Exchange exchange, String id) throws InterruptedException {
        ResponseStore.Entry entry = store.get(id);
        if (entry.hasEnded()) {
            throw RequestException.bad(
                    "response_id",
                    "the response is " + entry.response().path("status").asString()
                            + "; only one that is being computed can be cancelled");
        }
        entry.cancel();
        respond(exchange, entry.response());
    }

    private static void respond(Exchange exchange, ObjectNode response) {
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(response));
    }

    private Prepared prepare(Exchange exchange, long start) {
        RequestFields fields = parser.parse(exchange.body(), ApiFields.Endpoint.RESPONSES);
        ModelName.check(fields, model);
        boolean stream = fields.flag("stream", false);
        String instructions = fields.text("instructions").orElse("");
        String previous = fields.text("previous_response_id").orElse("");
        ServedModel.SamplingDefaults defaults = model.defaults();
        OptionalInt maxTokens = fields.integer(MAX_OUTPUT_TOKENS);
        SamplingParams.Builder sampling = SamplingParams.builder()
                .temperature(fields.number("temperature", defaults.temperature()))
                .topP(fields.number("top_p", defaults.topP()))
                .topK(fields.integer("top_k", defaults.topK()))
                .repetitionPenalty(defaults.repetitionPenalty())
                .maxTokens(maxTokens)
                .maxTokensField(MAX_OUTPUT_TOKENS);
        fields.wholeLong("seed").ifPresent(sampling::seed);
        SamplingParams params = sampling.build();
        ResponseObject.Echo echo = new ResponseObject.Echo(
                instructions,
                previous,
                maxTokens.orElse(0),
                fields.flag("store", true),
                fields.flag("background", false),
                echo(fields));
        checkBackground(echo, stream);
        ArrayNode conversation =
                previous.isEmpty() ? JSON.createArrayNode() : ended(previous).deepCopy();
        ResponsesPrompt.append(conversation, fields);
        ArrayNode whole = ResponsesPrompt.withInstructions(conversation, instructions);
        if (whole.isEmpty()) {
            throw RequestException.bad("input", "input has no message; send at least one");
        }
        ToolUse tools = ToolFields.read(fields, ToolList.RESPONSES, model);
        Optional<GrammarFields.Constraint> demanded = tools.insteadOfCalls(GrammarFields.readText(fields, parser));
        int[] prompt = prompts.read(
                "input",
                whole,
                tools.definitions(),
                false,
                ReasoningFields.responsesVariables(fields, model, demanded));
        AnswerReading reading = AnswerReading.of(model, tools, demanded, prompt, true, ReasoningFields.NO_BUDGET);
        AnswerRequest answer = AnswerRequest.of(
                model,
                prompt,
                params,
                CallGrammar.of(demanded, tools, reading, model),
                reading,
                model.cacheSaltFrom().read(fields, exchange::header),
                Deadline.read(fields, start));
        return new Prepared(answer, conversation, stream, echo);
    }

    /** Fields that the response repeats, with the API's defaults. */
    private static ObjectNode echo(RequestFields fields) {
        ObjectNode echo = JSON.createObjectNode();
        echo.set(ToolList.FIELD, fields.field(ToolList.FIELD).orElseGet(JSON::createArrayNode));
        fields.field(TOOL_CHOICE)
                .ifPresentOrElse(choice -> echo.set(TOOL_CHOICE, choice), () -> echo.put(TOOL_CHOICE, "auto"));
        echo.put(PARALLEL, fields.flag(PARALLEL, true));
        ObjectNode text = echo.putObject("text");
        fields.field("text")
                .map(given -> given.path("format"))
                .filter(JsonNode::isObject)
                .ifPresentOrElse(
                        format -> text.set("format", format),
                        () -> text.putObject("format").put("type", "text"));
        ObjectNode reasoning = echo.putObject("reasoning").putNull("effort").putNull("summary");
        fields.field("reasoning")
                .ifPresent(
                        given -> given.properties().forEach(field -> reasoning.set(field.getKey(), field.getValue())));
        echo.set("metadata", metadata(fields));
        return echo;
    }

    private static void checkBackground(ResponseObject.Echo echo, boolean stream) {
        if (echo.background() && !echo.store()) {
            throw RequestException.bad(
                    "background", "background needs store, because the response is retrieved later; leave store out");
        }
        if (echo.background() && stream) {
            throw RequestException.bad(
                    "background", "background together with stream is not supported; leave one of them out");
        }
    }

    private ArrayNode ended(String previous) {
        ResponseStore.Entry entry = store.get(previous);
        if (!entry.hasEnded()) {
            throw RequestException.bad(
                    "previous_response_id",
                    "the response of previous_response_id is still being computed; wait for its end or cancel it");
        }
        return entry.conversation();
    }

    private static JsonNode metadata(RequestFields fields) {
        JsonNode metadata = fields.field("metadata").orElseGet(JSON::createObjectNode);
        boolean fits = metadata.isObject()
                && metadata.size() <= MAX_METADATA
                && metadata.propertyStream()
                        .allMatch(entry -> entry.getValue().isString()
                                && entry.getValue().asString().length() <= MAX_METADATA_LENGTH);
        if (!fits) {
            throw RequestFields.wrong(
                    "metadata",
                    metadata,
                    "an object of at most " + MAX_METADATA + " strings of at most " + MAX_METADATA_LENGTH
                            + " characters");
        }
        return metadata;
    }
}
