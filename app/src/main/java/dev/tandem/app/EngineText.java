package dev.tandem.app;

import dev.tandem.server.http.Printable;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import tools.jackson.databind.JsonNode;

/** Writes what {@code /tandem/engine} says as lines for a terminal. */
final class EngineText {
    private static final int BAR = 30;
    /** Longer request ids are cut. */
    private static final int MAX_ID = 22;

    private EngineText() {}

    /** The live requests, one per line under a head. */
    static List<String> requests(JsonNode engine) {
        List<String> lines = new ArrayList<>();
        JsonNode requests = engine.get("requests");
        lines.add(Printable.escape(engine.get("model").asString()) + ", "
                + engine.at("/health/status").asString() + ": "
                + requests.get("live").asInt() + " live, "
                + requests.get("waiting").asInt() + " waiting");
        if (requests.get("list").isEmpty()) {
            return lines;
        }
        String format = "%-" + MAX_ID + "s  %-9s  %16s  %6s  %9s  %8s  %s";
        lines.add(String.format(Locale.ROOT, format, "REQUEST", "WHERE", "TOKENS", "HOST", "KV BLOCKS", "AGE", "WHY"));
        for (JsonNode request : requests.get("list")) {
            String id = Printable.escape(request.get("id").asString());
            lines.add(String.format(
                    Locale.ROOT,
                    format,
                    id.length() > MAX_ID ? id.substring(0, MAX_ID - 1) + "…" : id,
                    request.get("state").asString().replace('_', ' '),
                    request.get("prompt_tokens").asInt() + "+"
                            + request.get("output_tokens").asInt() + "/"
                            + request.get("max_tokens").asInt(),
                    request.get("host_tokens").asInt(),
                    request.get("blocks").asInt(),
                    time(request.get("age_ms").asDouble()),
                    request.get("why").asString()));
        }
        return lines;
    }

    /** The engine at a glance: strategy, KV of both tiers, rates, queue, latencies, last step. */
    static List<String> summary(JsonNode engine) {
        JsonNode strategy = engine.get("strategy");
        JsonNode requests = engine.get("requests");
        JsonNode rates = engine.get("per_second");
        List<String> lines = new ArrayList<>();
        lines.add(Printable.escape(engine.get("model").asString()) + ", "
                + engine.at("/health/status").asString()
                + engine.at("/health/reason").asString("").transform(reason -> reason.isEmpty() ? "" : ": " + reason));
        lines.add("strategy     " + strategy.get("name").asString()
                + (strategy.get("guarded").asBoolean()
                        ? strategy.path("offloading").asBoolean(false) ? ", offloading" : ", the GPU alone"
                        : ""));
        lines.add("reason       " + strategy.path("reason").asString("no step has run"));
        if (strategy.get("guarded").asBoolean()) {
            lines.add("gain         expected " + gain(strategy, "expected_gain") + ", measured "
                    + gain(strategy, "measured_gain") + ", best possible " + gain(strategy, "ideal_gain"));
        }
        lines.add("GPU KV       " + pool(engine.at("/kv/gpu")));
        lines.add("host KV      " + pool(engine.at("/kv/host")));
        lines.add("requests     " + requests.get("running").asInt() + " running, "
                + requests.get("waiting").asInt() + " waiting, "
                + requests.get("swapped").asInt() + " swapped out, "
                + requests.get("in_flight").asInt() + " in flight");
        lines.add("tokens/s     " + last(rates.get("output")) + " output, " + last(rates.get("host")) + " on the host, "
                + last(rates.get("prompt")) + " of prompts");
        lines.add("first token  " + latencies(engine.get("time_to_first_token_ms")));
        lines.add("per token    " + latencies(engine.get("inter_token_latency_ms")));
        JsonNode steps = engine.get("steps");
        lines.add("last step    " + (steps.isEmpty() ? "none" : step(steps.get(steps.size() - 1))));
        return lines;
    }

    private static String step(JsonNode step) {
        return step.path("shape").asString("") + " " + time(step.get("ms").asDouble()) + ", "
                + time(step.get("cpu_attention_ms").asDouble()) + " of CPU attention; "
                + step.get("prefill").asInt() + " prompt tokens, "
                + step.get("decode").asInt() + " decoded, "
                + step.get("host").asInt() + " of them on the host";
    }

    private static String pool(JsonNode pool) {
        int blocks = pool.get("blocks").asInt();
        int used = pool.get("used").asInt();
        if (blocks == 0) {
            return "none";
        }
        int filled = (int) ((long) BAR * used / blocks);
        return "[" + "#".repeat(filled) + ".".repeat(BAR - filled) + "] "
                + String.format(Locale.ROOT, "%,d / %,d blocks", used, blocks);
    }

    private static int last(JsonNode seconds) {
        return seconds.isEmpty() ? 0 : seconds.get(seconds.size() - 1).asInt();
    }

    private static String latencies(JsonNode latencies) {
        return latencies.has("p50")
                ? "p50 " + time(latencies.get("p50").asDouble()) + ", p99 "
                        + time(latencies.get("p99").asDouble())
                : "none yet";
    }

    private static String gain(JsonNode strategy, String name) {
        return strategy.has(name)
                ? String.format(
                        Locale.ROOT, "%+.1f %%", 100 * strategy.get(name).asDouble())
                : "not known";
    }

    private static String time(double millis) {
        return millis < 1000
                ? String.format(Locale.ROOT, "%.1f ms", millis)
                : String.format(Locale.ROOT, "%.1f s", millis / 1000);
    }
}
