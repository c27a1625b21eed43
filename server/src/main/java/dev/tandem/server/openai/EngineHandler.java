package dev.tandem.server.openai;

import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.RequestSnapshot;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.server.http.Exchange;
import dev.tandem.server.metrics.EngineHistory;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * Serves {@code GET /tandem/engine}: what the engine does now and did last, for the page at {@code /}.
 *
 * <p>Owned by: thread-safe; it waits for the engine thread, so it runs on virtual threads.
 */
final class EngineHandler {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** A longer step leaves the requests as they were last known. */
    private static final Duration MAX_WAIT = Duration.ofMillis(500);
    /** Decisions that are searched for those of the steps. */
    private static final int DECISIONS = 200;

    private static final double NANOS_PER_MILLI = 1e6;

    private final ServedModel model;
    private final DecisionLog decisions;
    private final EngineHistory history;
    private final String version;

    EngineHandler(ServedModel model, DecisionLog decisions, EngineHistory history, String version) {
        this.model = model;
        this.decisions = decisions;
        this.history = history;
        this.version = version;
    }

    void show(Exchange exchange) throws InterruptedException {
        Engine engine = model.engine();
        RequestSnapshot requests = engine.requests(MAX_WAIT);
        EngineStats stats = engine.stats();
        EngineHistory.View view = history.view();
        List<Decision> last = decisions.last(DECISIONS);
        ObjectNode root = JSON.createObjectNode()
                .put("model", model.name())
                .put("version", version)
                .put("context_tokens", engine.config().contextTokens());
        writeHealth(root.putObject("health"), engine.health());
        writeKv(root.putObject("kv"), engine, stats);
        writeRates(root.putObject("per_second"), view.rates());
        writeLatencies(root.putObject("time_to_first_token_ms"), view.timeToFirstToken());
        writeLatencies(root.putObject("inter_token_latency_ms"), view.timePerToken());
        writeStrategy(root.putObject("strategy"), view, last);
        boolean cpuAttends = !last.isEmpty() && last.getLast().chosen() != Shape.GPU_ONLY;
        writeRequests(root.putObject("requests"), requests, stats, cpuAttends);
        writeSteps(root.putArray("steps"), view, last);
        exchange.responseHeader("Cache-Control", "no-store");
        exchange.respond(200, "application/json", JSON.writeValueAsBytes(root));
    }

    private static void writeHealth(ObjectNode node, Engine.Health health) {
        switch (health) {
            case Engine.Health.Serving serving -> node.put("status", "ok");
            case Engine.Health.Degraded degraded ->
                node.put("status", "degraded").put("reason", degraded.reason());
            case Engine.Health.Draining draining ->
                node.put("status", "draining").put("reason", "the server is shutting down");
            case Engine.Health.Dead dead -> node.put("status", "dead").put("reason", dead.reason());
        }
    }

    private static void writeKv(ObjectNode node, Engine engine, EngineStats stats) {
        PrefixCacheUse prefixes = stats.prefixCache();
        writePool(node.putObject("gpu"), stats.gpu(), engine.limits().blockTokens(), prefixes.gpu());
        writePool(node.putObject("host"), stats.host(), engine.limits().hostBlockTokens(), prefixes.host());
        node.put("preemptions", stats.preemptions());
        node.put("prefix_queries", prefixes.queries());
        node.put("prefix_hits", prefixes.hits());
    }

    private static void writePool(ObjectNode node, EngineStats.Pool pool, int blockTokens, PrefixCacheUse.Tier cache) {
        node.put("blocks", pool.blocks())
                .put("used", pool.used())
                .put("cached", cache.cachedBlocks())
                .put("block_tokens", blockTokens);
    }

    private static void writeRates(ObjectNode node, EngineHistory.Rates rates) {
        writeAll(node.putArray("output"), rates.output());
        writeAll(node.putArray("host"), rates.host());
        writeAll(node.putArray("prompt"), rates.prompt());
    }

    private static void writeAll(ArrayNode array, int[] values) {
        for (int value : values) {
            array.add(value);
        }
    }

    private static void writeLatencies(ObjectNode node, EngineHistory.Latencies latencies) {
        node.put("count", latencies.count());
        if (latencies.count() > 0) {
            node.put("p50", millis(latencies.p50())).put("p99", millis(latencies.p99()));
        }
    }

    private void writeStrategy(ObjectNode node, EngineHistory.View view, List<Decision> last) {
        EngineHistory.GuardState guard = view.guard();
        node.put("name", history.strategy()).put("guarded", guard.present());
        if (!last.isEmpty()) {
            Decision newest = last.getLast();
            node.put("step_shape", newest.chosen().label()).put("reason", newest.reason());
        }
        if (!guard.present()) {
            return;
        }
        node.put("offloading", guard.offloading()).put("losses", guard.losses());
        put(node, "expected_gain", guard.expected());
        put(node, "measured_gain", guard.measured());
        put(node, "ideal_gain", guard.ideal());
        ArrayNode phases = node.putArray("phases");
        for (EngineHistory.PhaseChange change : guard.changes()) {
            ObjectNode phase = phases.addObject()
                    .put("phase", change.phase().name().toLowerCase(Locale.ROOT))
                    .put("step", change.step())
                    .put("ago_ms", millis(view.nanos() - change.nanos()))
                    .put("losses", change.losses());
            put(phase, "measured_gain", change.measuredGain());
        }
    }

    private static void put(ObjectNode node, String name, OptionalDouble value) {
        if (value.isPresent()) {
            node.put(name, value.getAsDouble());
        }
    }

    /** @param cpuAttends whether the CPU attended for host tokens in the last step */
    private void writeRequests(ObjectNode node, RequestSnapshot snapshot, EngineStats stats, boolean cpuAttends) {
        EngineStats.Requests counts = stats.requests();
        node.put("waiting", model.engine().waiting())
                .put("running", counts.running())
                .put("swapped", counts.swapped())
                .put("in_flight", counts.inFlight())
                .put("live", snapshot.live());
        ArrayNode list = node.putArray("list");
        int freeBlocks = stats.gpu().blocks() - stats.gpu().used();
        int ahead = 0;
        for (RequestSnapshot.Entry entry : snapshot.requests()) {
            boolean queued = entry.standing() == RequestSnapshot.Standing.WAITING
                    || entry.standing() == RequestSnapshot.Standing.DROPPED;
            RequestSnapshot.Tokens tokens = entry.tokens();
            ObjectNode request = list.addObject()
                    .put("id", entry.id())
                    .put("state", entry.standing().name().toLowerCase(Locale.ROOT))
                    .put("why", why(entry, ahead, freeBlocks, cpuAttends))
                    .put("prompt_tokens", tokens.prompt())
                    .put("output_tokens", tokens.output())
                    .put("host_tokens", tokens.host())
                    .put("max_tokens", tokens.limit())
                    .put("blocks", queued ? 0 : entry.blocks())
                    .put("age_ms", millis(entry.times().age()))
                    .put("queued_ms", millis(entry.times().queued()))
                    .put("preemptions", entry.preemptions())
                    .put("bypassed", entry.bypassed());
            if (entry.times().sinceToken() >= 0) {
                request.put("since_token_ms", millis(entry.times().sinceToken()));
            }
            ahead += queued ? 1 : 0;
        }
    }

    /** Why the request stands where it does, in words. */
    private static String why(RequestSnapshot.Entry entry, int ahead, int freeBlocks, boolean cpuAttends) {
        RequestSnapshot.Tokens tokens = entry.tokens();
        int known = tokens.prompt() + tokens.output();
        String need = "needs " + entry.blocks() + (entry.blocks() == 1 ? " GPU block" : " GPU blocks") + " of KV, "
                + freeBlocks + (freeBlocks == 1 ? " is free" : " are free");
        return switch (entry.standing()) {
            case WAITING -> need + "; " + (ahead == 0 ? "next in the queue" : ahead + " before it in the queue");
            case DROPPED -> "its KV was dropped to make room and is computed again; " + need;
            case GPU ->
                known - tokens.computed() > 1
                        ? "the GPU computes the prompt: " + tokens.computed() + " of " + known + " tokens"
                        : "decodes; the GPU attends over its KV";
            case HOST ->
                cpuAttends
                        ? "decodes; the CPU attends over its KV in host memory"
                        : "its KV is in host memory; waits for GPU blocks";
            case IN_FLIGHT -> "decodes; its token is between two layers, while the CPU attends over its KV";
        };
    }

    private static void writeSteps(ArrayNode array, EngineHistory.View view, List<Decision> last) {
        Map<Long, Decision> byStep = HashMap.newHashMap(last.size());
        last.forEach(decision -> byStep.put(decision.step(), decision));
        for (EngineHistory.Step step : view.steps()) {
            ObjectNode node = array.addObject()
                    .put("step", step.step())
                    .put("ago_ms", millis(view.nanos() - step.begin()))
                    .put("ms", millis(step.executed()))
                    .put("plan_ms", millis(step.planned()))
                    .put("cpu_attention_ms", millis(step.cpuAttention()))
                    .put("host_wait_ms", millis(step.hostWait()))
                    .put("prefill", step.prefill())
                    .put("decode", step.decode())
                    .put("host", step.host())
                    .put("swaps", step.swaps());
            Decision decision = byStep.get(step.step());
            if (decision != null) {
                node.put("shape", decision.chosen().label()).put("predicted_ms", decision.predicted() * 1e3);
            }
        }
    }

    /** Milliseconds, to the microsecond. */
    private static double millis(long nanos) {
        return Math.round(nanos / (NANOS_PER_MILLI / 1e3)) / 1e3;
    }
}
