package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.Printable;
import dev.tandem.server.http.RequestHead;
import dev.tandem.server.http.Response;
import dev.tandem.server.http.Router;
import dev.tandem.server.metrics.ServerMetrics;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.InstantSource;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Routes paths to handlers and turns errors into answers.
 *
 * <p>Owned by: thread-safe; all requests share it.
 */
public final class OpenAiApi implements Router {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MAX_ID_LENGTH = 64;
    /** Seconds after which a refused client may try again. */
    private static final String RETRY_AFTER = "1";

    private interface Handler {
        void serve(Exchange exchange) throws InterruptedException;
    }

    /**
     * @param open whether it is served without an API key, because monitoring tools send none
     * @param quick whether the event loop serves it, so that health checks are answered under full load
     * @param json whether it takes a JSON body
     */
    private record Route(String method, boolean open, boolean quick, boolean json, Handler handler) {
        static Route post(Handler handler) {
            return new Route("POST", false, false, true, handler);
        }

        static Route get(Handler handler) {
            return new Route("GET", false, false, false, handler);
        }

        Route withoutKey() {
            return new Route(method, true, quick, json, handler);
        }

        Route onEventLoop() {
            return new Route(method, open, true, json, handler);
        }

        Route withoutBody() {
            return new Route(method, open, quick, false, handler);
        }

        boolean accepts(String wanted) {
            return wanted.equals(method) || wanted.equals("HEAD") && method.equals("GET");
        }

        String methods() {
            return method.equals("GET") ? "GET, HEAD, OPTIONS" : method + ", OPTIONS";
        }
    }

    private final ServedModel model;
    private final ServerMetrics metrics;
    private final Optional<String> apiKey;
    private final InstantSource time;
    private final Map<String, Route> routes;

    /** @param apiKey when present, every request except those to /health and /metrics must send it */
    public OpenAiApi(
            ServedModel model,
            TokenizerPool pool,
            DecisionLog decisions,
            ServerMetrics metrics,
            Optional<String> apiKey,
            String version,
            InstantSource time) {
        this.model = model;
        this.metrics = metrics;
        this.apiKey = apiKey;
        this.time = time;
        PromptReader promptReader =
                new PromptReader(model.tokenizer(), model.engine().config().contextTokens());
        RequestParser parser = new RequestParser(promptReader);
        ChatPrompt chatPrompt = new ChatPrompt(model, promptReader, parser);
        ChatHandler chat = new ChatHandler(model, parser, chatPrompt, pool);
        CompletionHandler completion = new CompletionHandler(model, parser, promptReader, pool);
        TokenizeHandler tokenize = new TokenizeHandler(model, parser, chatPrompt, promptReader, pool);
        DebugHandler debug = new DebugHandler(decisions);
        long started = time.instant().getEpochSecond();
        this.routes = Map.of(
                "/v1/chat/completions", Route.post(e -> chat.serve(e, requestId(e), now())),
                "/v1/completions", Route.post(e -> completion.serve(e, requestId(e), now())),
                "/v1/models", Route.get(e -> models(e, started)).onEventLoop(),
                "/tokenize", Route.post(tokenize::tokenize),
                "/detokenize", Route.post(tokenize::detokenize),
                "/health", Route.get(this::health).withoutKey().onEventLoop(),
                "/debug/steps", Route.get(debug::steps),
                "/reset_prefix_cache",
                        Route.post(this::resetPrefixCache).withoutBody().onEventLoop(),
                "/version",
                        Route.get(e -> answer(e, JSON.createObjectNode().put("version", version)))
                                .onEventLoop(),
                "/metrics", Route.get(this::metrics).withoutKey().onEventLoop());
    }

    private long now() {
        return time.instant().getEpochSecond();
    }

    /** The client's own id with a unique suffix, if it is short and printable; else a new one. */
    private static String requestId(Exchange exchange) {
        String unique = UUID.randomUUID().toString().replace("-", "");
        String given = exchange.header("x-request-id");
        boolean fit = !given.isEmpty()
                && given.length() <= MAX_ID_LENGTH
                && given.chars().allMatch(c -> c > ' ' && c < 127);
        exchange.responseHeader("X-Request-Id", fit ? given : unique);
        return fit ? given + "-" + unique.substring(0, 8) : unique;
    }

    @Override
    public Decision decide(RequestHead head) {
        Route route = routes.get(head.path());
        if ((route == null || !route.open())
                && !authorised(head)
                && !head.method().equals("OPTIONS")) {
            return refusal(
                    401,
                    "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'",
                    Map.of("WWW-Authenticate", "Bearer"));
        }
        if (route == null) {
            return refusal(
                    404,
                    "there is no " + Printable.of(head.path()) + " here; there are "
                            + String.join(
                                    ", ", routes.keySet().stream().sorted().toList()),
                    Map.of());
        }
        Map<String, String> allow = Map.of("Allow", route.methods());
        if (head.method().equals("OPTIONS")) {
            return new Decision.Answer(Response.empty(204, allow));
        }
        if (!route.accepts(head.method())) {
            return refusal(
                    405, head.path() + " takes " + route.methods() + ", not " + Printable.of(head.method()), allow);
        }
        if (route.json() && !isJson(head.header("content-type"))) {
            return refusal(
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

    private static Decision refusal(int status, String message, Map<String, String> headers) {
        return new Decision.Answer(new Response(status, "application/json", ApiErrors.body(status, message), headers));
    }

    @Override
    public void serve(Exchange exchange) throws InterruptedException {
        try {
            Objects.requireNonNull(routes.get(exchange.path()), "decide() accepts only known paths")
                    .handler()
                    .serve(exchange);
        } catch (RequestException e) {
            int status = ApiErrors.status(e.category());
            if (e.category() == RequestException.Category.OVERLOADED) {
                metrics.rejected();
                exchange.responseHeader("Retry-After", RETRY_AFTER);
            }
            exchange.respond(
                    status,
                    "application/json",
                    JSON.writeValueAsBytes(ApiErrors.node(status, String.valueOf(e.getMessage()), e.parameter())));
        }
    }

    private boolean authorised(RequestHead head) {
        if (apiKey.isEmpty()) {
            return true;
        }
        String given = BearerKey.of(head.header("authorization"));
        return MessageDigest.isEqual(
                given.getBytes(StandardCharsets.UTF_8), apiKey.get().getBytes(StandardCharsets.UTF_8));
    }

    private static void refuse(Exchange exchange, int status, String message) {
        exchange.respond(status, "application/json", ApiErrors.body(status, message));
    }

    private static void answer(Exchange exchange, ObjectNode node) {
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(node));
    }

    private void health(Exchange exchange) {
        switch (model.engine().health()) {
            case Engine.Health.Serving serving ->
                answer(exchange, JSON.createObjectNode().put("status", "ok"));
            case Engine.Health.Degraded degraded ->
                answer(
                        exchange,
                        JSON.createObjectNode()
                                .put("status", "degraded")
                                .put("reason", "GPU only: " + degraded.reason()));
            case Engine.Health.Draining draining -> refuse(exchange, 503, "the server is shutting down");
            case Engine.Health.Dead dead -> refuse(exchange, 503, "the engine has stopped: " + dead.reason());
        }
    }

    private void resetPrefixCache(Exchange exchange) {
        model.engine().resetPrefixCache();
        answer(exchange, JSON.createObjectNode());
    }

    private void metrics(Exchange exchange) {
        exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape());
    }

    private void models(Exchange exchange, long started) {
        ObjectNode root = JSON.createObjectNode().put("object", "list");
        ObjectNode entry = root.putArray("data").addObject();
        entry.put("id", model.name())
                .put("object", "model")
                .put("created", started)
                .put("owned_by", "tandem")
                .put("root", model.name())
                .put("max_model_len", model.engine().config().contextTokens());
        entry.putNull("parent");
        answer(exchange, root);
    }
}
