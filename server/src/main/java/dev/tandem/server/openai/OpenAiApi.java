package dev.tandem.server.openai;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.Printable;
import dev.tandem.server.http.RequestHead;
import dev.tandem.server.http.Response;
import dev.tandem.server.http.Router;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.trace.RequestTracing;
import java.time.InstantSource;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import tools.jackson.databind.ObjectMapper;

/**
 * Routes paths to handlers and turns errors into answers.
 *
 * <p>Owned by: thread-safe; all requests share it.
 */
public final class OpenAiApi implements Router {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Seconds after which a refused client may try again. */
    private static final String RETRY_AFTER = "1";
    /** As while the model loads: a restart, or the rest of a build, takes longer than a place in the queue. */
    private static final String RETRY_AFTER_UNAVAILABLE = "5";

    private final ServerMetrics metrics;
    private final ApiKeys keys;
    private final InstantSource time;
    private final Optional<RequestTracing> tracing;
    private final Routes routes;
    private final AtomicInteger inProgress = new AtomicInteger();

    /**
     * @param tracing of requests that generate; empty without traces
     * @param keys of which every request must send one, except those to /health, /ping and /metrics
     */
    public OpenAiApi(
            ServedModel model,
            TokenizerPool pool,
            DecisionLog decisions,
            ServerMetrics metrics,
            EngineHistory history,
            Optional<RequestTracing> tracing,
            ApiKeys keys,
            String version,
            InstantSource time) {
        this.metrics = metrics;
        this.tracing = tracing;
        this.keys = keys;
        this.time = time;
        PromptReader promptReader =
                new PromptReader(model.tokenizer(), model.engine().config().contextTokens());
        RequestParser parser = new RequestParser(promptReader);
        ChatPrompt chatPrompt = new ChatPrompt(model, promptReader, parser);
        ChatHandler chat = new ChatHandler(model, parser, chatPrompt, promptReader, pool);
        CompletionHandler completion = new CompletionHandler(model, parser, promptReader, pool);
        MessagesHandler messages = new MessagesHandler(model, parser, chatPrompt, pool);
        ResponsesHandler responses = new ResponsesHandler(model, parser, chatPrompt, pool, time);
        TokenizeHandler tokenize = new TokenizeHandler(model, parser, chatPrompt, promptReader, pool);
        DebugHandler debug = new DebugHandler(decisions);
        EngineHandler engine = new EngineHandler(model, decisions, history, version);
        StatusHandler status = new StatusHandler(model.engine(), metrics, version, inProgress::get);
        ModelHandler models = new ModelHandler(model, now());
        this.routes = new Routes(List.of(
                Route.post(
                        ApiFields.Endpoint.CHAT,
                        "Answers a conversation.",
                        exchange -> chat.serve(exchange, exchange.uniqueId(), now())),
                Route.post(
                        ApiFields.Endpoint.COMPLETIONS,
                        "Continues prompts.",
                        exchange -> completion.serve(exchange, exchange.uniqueId(), now())),
                Route.post(
                                ApiFields.Endpoint.MESSAGES,
                                "Answers a conversation, as Anthropic's API does.",
                                messages::serve)
                        .errors(ErrorFormat.ANTHROPIC),
                Route.post(
                                ApiFields.Endpoint.COUNT_TOKENS,
                                "Counts the tokens of a conversation's prompt.",
                                messages::countTokens)
                        .errors(ErrorFormat.ANTHROPIC),
                Route.post(
                        ApiFields.Endpoint.RESPONSES,
                        "Answers an input, and keeps the response for later ones.",
                        responses::create),
                Route.get("/v1/responses/{id}", "Returns a kept response.", responses::retrieve),
                Route.post("/v1/responses/{id}/cancel", "Ends a response that is being computed.", responses::cancel),
                Route.get("/v1/models", "Lists the served model.", models::list).onEventLoop(),
                Route.get("/v1/models/{id}", "Describes the served model.", models::one)
                        .onEventLoop(),
                Route.post(ApiFields.Endpoint.TOKENIZE, "Tokenizes a prompt or a conversation.", tokenize::tokenize),
                Route.post(ApiFields.Endpoint.DETOKENIZE, "Turns tokens into text.", tokenize::detokenize),
                Route.get("/tokenizer_info", "Describes the tokenizer.", models::tokenizer),
                Route.get("/health", "Says whether the engine serves requests.", status::health)
                        .withoutKey()
                        .onEventLoop(),
                Route.get("/ping", "Does the same as /health.", status::health)
                        .withoutKey()
                        .onEventLoop(),
                Route.get("/load", "Counts the requests that are being answered.", status::load)
                        .onEventLoop(),
                Route.get("/tandem/engine", "Shows what the engine does now and did last.", engine::show),
                Route.get("/debug/steps", "Shows the scheduler's last decisions.", debug::steps),
                Route.post("/reset_prefix_cache", "Drops the cached prefixes.", status::resetPrefixCache)
                        .onEventLoop(),
                Route.get("/version", "Names the server's version.", status::version)
                        .onEventLoop(),
                Route.get(
                                "/openapi.json",
                                "Describes this API.",
                                exchange -> exchange.respond(200, "application/json", description(version)))
                        .withoutKey(),
                Route.get("/metrics", "Has the metrics in Prometheus' text format.", status::metrics)
                        .withoutKey()
                        .onEventLoop()));
    }

    private byte[] description(String version) {
        return JSON.writeValueAsBytes(ApiDescription.of(routes.all(), version));
    }

    private long now() {
        return time.instant().getEpochSecond();
    }

    @Override
    public Decision decide(RequestHead head) {
        Optional<Routes.Match> match = routes.find(head.path());
        ErrorFormat errors = match.map(found -> found.route().errors()).orElse(ErrorFormat.OPENAI);
        boolean open = match.isPresent() && match.get().route().open();
        if (!open && !keys.allow(head) && !head.method().equals("OPTIONS")) {
            return refusal(
                    errors,
                    401,
                    "the API key is missing or wrong; send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'",
                    Map.of("WWW-Authenticate", "Bearer"));
        }
        if (match.isEmpty()) {
            return refusal(
                    errors,
                    404,
                    "there is no " + Printable.of(head.path()) + " here; there are "
                            + String.join(
                                    ", ",
                                    routes.all().stream()
                                            .map(Route::path)
                                            .sorted()
                                            .toList()),
                    Map.of());
        }
        Route route = match.get().route();
        Map<String, String> allow = Map.of("Allow", route.methods());
        if (head.method().equals("OPTIONS")) {
            return new Decision.Answer(Response.empty(204, allow));
        }
        if (!route.accepts(head.method())) {
            return refusal(
                    errors,
                    405,
                    Printable.of(head.path()) + " takes " + route.methods() + ", not " + Printable.of(head.method()),
                    allow);
        }
        if (route.fields().isPresent() && !isJson(head.header("content-type"))) {
            return refusal(
                    errors,
                    415,
                    "the Content-Type is '" + Printable.of(head.header("content-type"))
                            + "'; it must be application/json",
                    Map.of());
        }
        return route.quick() ? new Decision.OnEventLoop() : new Decision.OnVirtualThread();
    }

    /** Browsers let any web page send other content types, or none, without a CORS preflight; these are refused. */
    private static boolean isJson(String contentType) {
        String type = contentType.split(";", 2)[0].strip().toLowerCase(Locale.ROOT);
        return type.equals("application/json") || type.startsWith("application/") && type.endsWith("+json");
    }

    private static Decision refusal(ErrorFormat errors, int status, String message, Map<String, String> headers) {
        return new Decision.Answer(
                new Response(status, "application/json", errors.body(status, message, "", ""), headers));
    }

    /** OpenTelemetry's name for what an endpoint does; empty for those that generate nothing. */
    private static Optional<String> operation(ApiFields.Endpoint endpoint) {
        return switch (endpoint) {
            case CHAT, MESSAGES, RESPONSES -> Optional.of("chat");
            case COMPLETIONS -> Optional.of("text_completion");
            case COUNT_TOKENS, TOKENIZE, DETOKENIZE -> Optional.empty();
        };
    }

    @Override
    public void serve(Exchange exchange) throws InterruptedException {
        Routes.Match match = routes.find(exchange.path()).orElseThrow(); // decide() accepts only known paths
        Route route = match.route();
        int counted = route.fields().isPresent() ? 1 : 0;
        inProgress.addAndGet(counted);
        tracing.ifPresent(
                traces -> route.fields().flatMap(OpenAiApi::operation).ifPresent(name -> traces.begin(exchange, name)));
        try {
            route.handler().serve(exchange, match.id());
        } catch (RequestException e) {
            int status = ApiErrors.status(e.category());
            switch (e.category()) {
                case OVERLOADED -> {
                    metrics.rejected();
                    exchange.responseHeader("Retry-After", RETRY_AFTER);
                }
                case UNAVAILABLE -> exchange.responseHeader("Retry-After", RETRY_AFTER_UNAVAILABLE);
                case BAD_REQUEST, NOT_FOUND, TOO_LARGE, NOT_IMPLEMENTED -> {}
            }
            String message = String.valueOf(e.getMessage());
            exchange.respond(
                    status,
                    "application/json",
                    route.errors().body(status, message, e.parameter(), exchange.requestId()));
        } finally {
            inProgress.addAndGet(-counted);
        }
    }
}
