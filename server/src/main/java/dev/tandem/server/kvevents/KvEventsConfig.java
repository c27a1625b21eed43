package dev.tandem.server.kvevents;

import dev.tandem.engine.config.ConfigurationException;
import java.util.List;
import java.util.Optional;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Where and how KV events are published; names and defaults are those of vLLM's {@code --kv-events-config}.
 *
 * @param endpoint of the PUB socket; an address with {@code *} or {@code ::} is bound, any other is connected to
 * @param replayEndpoint which the ROUTER socket is bound to; empty without replay
 * @param bufferSteps batches that are kept for replay
 * @param highWaterMark batches that may wait for one slow subscriber; it does not get further ones
 * @param maxQueueSize batches that may wait for the publisher's thread; further ones are dropped
 * @param topic first frame of every message
 */
public record KvEventsConfig(
        String endpoint,
        Optional<String> replayEndpoint,
        int bufferSteps,
        int highWaterMark,
        int maxQueueSize,
        String topic) {
    private static final JsonMapper JSON = JsonMapper.shared();
    private static final String OPTION = "--kv-events-config";
    private static final List<String> FIELDS = List.of(
            "enable_kv_cache_events",
            "publisher",
            "endpoint",
            "replay_endpoint",
            "buffer_steps",
            "hwm",
            "max_queue_size",
            "topic");

    /**
     * Reads the option's JSON; empty when it says that no events are published.
     *
     * @throws ConfigurationException that names the field, its value and the remedy
     */
    public static Optional<KvEventsConfig> parse(String json) {
        JsonNode fields;
        try {
            fields = JSON.readTree(json);
        } catch (JacksonException e) {
            throw new ConfigurationException(OPTION + " is not JSON: " + e.getOriginalMessage()
                    + "; write for example {\"enable_kv_cache_events\": true, \"topic\": \"kv-events\"}");
        }
        if (!fields.isObject()) {
            throw new ConfigurationException(OPTION + " " + fields + " is not a JSON object");
        }
        fields.propertyNames().forEach(KvEventsConfig::requireKnown);
        KvEventsConfig config = new KvEventsConfig(
                endpoint(fields, "endpoint").orElse("tcp://*:5557"),
                endpoint(fields, "replay_endpoint"),
                count(fields, "buffer_steps", 10_000),
                count(fields, "hwm", 100_000),
                count(fields, "max_queue_size", 100_000),
                text(fields, "topic").orElse(""));
        return isPublished(fields) ? Optional.of(config) : Optional.empty();
    }

    private static void requireKnown(String field) {
        if (!FIELDS.contains(field)) {
            throw new ConfigurationException(
                    OPTION + " has an unknown field \"" + field + "\"; it may have " + String.join(", ", FIELDS));
        }
    }

    private static boolean isPublished(JsonNode fields) {
        JsonNode enabled = fields.path("enable_kv_cache_events");
        if (!enabled.isMissingNode() && !enabled.isBoolean()) {
            throw wrong("enable_kv_cache_events", enabled, "true or false");
        }
        Optional<String> publisher = text(fields, "publisher");
        if (publisher.isEmpty()) {
            return enabled.asBoolean(false);
        }
        boolean zmq = publisher.get().equals("zmq");
        if (!zmq && !publisher.get().equals("null")) {
            throw wrong("publisher", fields.get("publisher"), "\"zmq\" or \"null\"");
        }
        if (enabled.isBoolean() && enabled.booleanValue() != zmq) {
            throw new ConfigurationException(OPTION + " has \"enable_kv_cache_events\": " + enabled
                    + " and \"publisher\": \"" + publisher.get() + "\", which contradict each other; leave one out");
        }
        return zmq;
    }

    private static Optional<String> endpoint(JsonNode fields, String name) {
        Optional<String> endpoint = text(fields, name);
        endpoint.filter(address -> !address.matches("tcp://.+:(\\d+|\\*)")).ifPresent(address -> {
            throw wrong(name, fields.get(name), "tcp://HOST:PORT, where HOST * means all interfaces");
        });
        return endpoint;
    }

    private static Optional<String> text(JsonNode fields, String name) {
        JsonNode value = fields.path(name);
        if (value.isMissingNode() || value.isNull()) {
            return Optional.empty();
        }
        if (!value.isString()) {
            throw wrong(name, value, "a string");
        }
        return Optional.of(value.stringValue());
    }

    private static int count(JsonNode fields, String name, int standard) {
        JsonNode value = fields.path(name);
        if (value.isMissingNode()) {
            return standard;
        }
        if (!value.isInt() || value.intValue() < 1) {
            throw wrong(name, value, "a whole number from 1 to " + Integer.MAX_VALUE);
        }
        return value.intValue();
    }

    private static ConfigurationException wrong(String name, JsonNode value, String remedy) {
        return new ConfigurationException(OPTION + " has \"" + name + "\": " + value + "; it must be " + remedy);
    }
}
