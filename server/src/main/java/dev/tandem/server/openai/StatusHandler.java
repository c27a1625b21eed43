package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.metrics.ServerMetrics;
import java.util.function.IntSupplier;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Serves what probes and routers ask: health, load, version and metrics. */
final class StatusHandler {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final IntSupplier inProgress;
    private final Engine engine;
    private final ServerMetrics metrics;
    private final String version;

    /** @param inProgress number of requests with a body that are being answered */
    StatusHandler(Engine engine, ServerMetrics metrics, String version, IntSupplier inProgress) {
        this.inProgress = inProgress;
        this.engine = engine;
        this.metrics = metrics;
        this.version = version;
    }

    void health(Exchange exchange) {
        switch (engine.health()) {
            case Engine.Health.Serving serving ->
                answer(exchange, JSON.createObjectNode().put("status", "ok"));
            case Engine.Health.Degraded degraded ->
                answer(
                        exchange,
                        JSON.createObjectNode()
                                .put("status", "degraded")
                                .put("reason", "GPU only: " + degraded.reason()));
            case Engine.Health.Draining draining -> refuse(exchange, "the server is shutting down");
            case Engine.Health.Dead dead -> refuse(exchange, "the engine has stopped: " + dead.reason());
        }
    }

    /** The requests with a body that are being answered, under vLLM's name. */
    void load(Exchange exchange) {
        answer(exchange, JSON.createObjectNode().put("server_load", inProgress.getAsInt()));
    }

    void resetPrefixCache(Exchange exchange, String id) {
        engine.resetPrefixCache();
        answer(exchange, JSON.createObjectNode());
    }

    void version(Exchange exchange) {
        answer(exchange, JSON.createObjectNode().put("version", version));
    }

    void metrics(Exchange exchange) {
        exchange.respond(200, "text/plain; version=0.0.4; charset=utf-8", metrics.scrape());
    }

    private static void refuse(Exchange exchange, String message) {
        exchange.respond(503, "application/json", ApiErrors.body(503, message));
    }

    private static void answer(Exchange exchange, ObjectNode node) {
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(node));
    }
}
