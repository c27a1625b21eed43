package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.Router;
import dev.tandem.server.metrics.ServerMetrics;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.InstantSource;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Paths to handlers; errors to answers. Shared by all requests. */
public final class OpenAiApi implements Router {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int MOST_ID_LENGTH = 64;
    /** How long a refused client should stay away, in seconds. */
    private static final String RETRY_AFTER = "1";

    private interface Handler {
        void serve(Exchange exchange) throws InterruptedException;
    }

    private record Route(String method, Handler handler) {}

    private final ServedModel model;
    private final ServerMetrics metrics;
    private final Optional<String> apiKey;
    private final String version;
    private final InstantSource time;
    private final Map<String, Route> routes;

    /** @param apiKey asked of every request but those to /health, when present */
    public OpenAiApi(
            ServedModel model,
            DecisionLog decisions,
            ServerMetrics metrics,
            Optional<String> apiKey,
            String version,
            InstantSource time) {
        this.model = model;
        this.metrics = metrics;
        this.apiKey = apiKey;
        this.version = version;
        this.time = time;
        ChatHandler chat = new ChatHandler(model);
        CompletionHandler completion = new CompletionHandler(model);
        TokenizeHandler tokenize = new TokenizeHandler(model);
        DebugHandler debug = new DebugHandler(decisions);
        long started = time.instant().getEpochSecond();
        this.routes = Map.of(
                "/v1/chat/completions", new Route("POST", e -> chat.serve(e, requestId(e), now())),
                "/v1/completions", new Route("POST", e -> completion.serve(e, requestId(e), now())),
                "/v1/models", new Route("GET", e -> models(e, started)),
                "/tokenize", new Route("POST", tokenize::tokenize),
                "/detokenize", new Route("POST", tokenize::detokenize),
                "/health", new Route("GET", this::health),
                "/debug/steps", new Route("GET", debug::steps),
                "/version", new Route("GET", e -> answer(e, JSON.createObjectNode().put("version", version))),
                "/metrics", new Route("GET", e -> e.respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape())));
    }

    private long now() {
        return time.instant().getEpochSecond();
    }

    /** The client's own id where it is fit to be shown, made unique; else a new one. */
    private static String requestId(Exchange exchange) {
        String unique = UUID.randomUUID().toString().replace("-", "");
        String given = exchange.header("x-request-id");
        boolean fit = !given.isEmpty() && given.length() <= MOST_ID_LENGTH && given.chars().allMatch(c -> c > ' ' && c < 127);
        exchange.responseHeader("X-Request-Id", fit ? given : unique);
        return fit ? given + "-" + unique.substring(0, 8) : unique;
    }

    @Override
    public void serve(Exchange exchange) throws InterruptedException {
        try {
            dispatch(exchange);
        } catch (RequestException e) {
            int status = ApiErrors.status(e.category());
            if (e.category() == RequestException.Category.OVERLOADED) {
                metrics.rejected();
                exchange.responseHeader("Retry-After", RETRY_AFTER);
            }
            exchange.respond(
                    status, "application/json", JSON.writeValueAsBytes(ApiErrors.node(status, e.getMessage(), e.parameter())));
        }
    }

    private void dispatch(Exchange exchange) throws InterruptedException {
        if (!exchange.path().equals("/health") && !authorised(exchange)) {
            exchange.responseHeader("WWW-Authenticate", "Bearer");
            refuse(exchange, 401, "the API key is missing or wrong; send it as 'Authorization: Bearer KEY'");
            return;
        }
        Route route = routes.get(exchange.path());
        if (route == null) {
            refuse(exchange, 404, "there is no " + exchange.path() + " here; there are "
                    + String.join(", ", routes.keySet().stream().sorted().toList()));
        } else if (!route.method().equals(exchange.method())) {
            exchange.responseHeader("Allow", route.method());
            refuse(exchange, 405, exchange.path() + " takes " + route.method() + ", not " + exchange.method());
        } else {
            route.handler().serve(exchange);
        }
    }

    private boolean authorised(Exchange exchange) {
        if (apiKey.isEmpty()) {
            return true;
        }
        String header = exchange.header("authorization");
        String given = header.toLowerCase(Locale.ROOT).startsWith("bearer ") ? header.substring(7).strip() : "";
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
            case Engine.Health.Serving serving -> answer(exchange, JSON.createObjectNode().put("status", "ok"));
            case Engine.Health.Degraded degraded -> answer(
                    exchange,
                    JSON.createObjectNode().put("status", "degraded").put("reason", "GPU only: " + degraded.reason()));
            case Engine.Health.Draining draining -> refuse(exchange, 503, "the server is shutting down");
            case Engine.Health.Dead dead -> refuse(exchange, 503, "the engine has stopped: " + dead.reason());
        }
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
