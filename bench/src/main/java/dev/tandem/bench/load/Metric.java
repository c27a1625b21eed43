package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.util.Arrays;
import java.util.stream.Collectors;

/** The latencies of a request, under vLLM's names. */
public enum Metric {
    /** Time to first token, from arrival. */
    TTFT("ttft"),
    /** Time per output token after the first, of each request with at least two. */
    TPOT("tpot"),
    /** Time between two successive pieces of a streamed answer. */
    ITL("itl"),
    /** End-to-end latency: from arrival to the last token. */
    E2EL("e2el"),
    /** End-to-end latency divided by the number of output tokens: the per-token latency of NEO §5.1 and APEX §5.1. */
    LATENCY_PER_TOKEN("latency_per_token");

    private final String key;

    Metric(String key) {
        this.key = key;
    }

    /** The name in options and in the keys of results, as {@code mean_ttft_ms}. */
    public String key() {
        return key;
    }

    /**
     * Finds a metric by its name.
     *
     * @throws ConfigurationException that lists the names
     */
    public static Metric of(String key) {
        return Arrays.stream(values())
                .filter(metric -> metric.key.equals(key))
                .findFirst()
                .orElseThrow(() -> new ConfigurationException("the metric " + key + " is not known; known are "
                        + Arrays.stream(values()).map(Metric::key).collect(Collectors.joining(", "))));
    }
}
