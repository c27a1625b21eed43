package dev.tandem.bench.reproduce;

/** What a figure measures: its horizontal axis, its vertical axis, and which direction is better. */
public enum Experiment {
    /**
     * Poisson arrivals at each rate. Per-token latency is a request's latency divided by its output tokens, averaged
     * over requests (NEO Figure 6).
     */
    LOAD_LATENCY("load-latency", "request rate (1/s)", "mean per-token latency (s)", false),
    /** One rate; percentiles of the per-token latency (NEO Figure 7). */
    LATENCY_PERCENTILES("latency-percentiles", "percentile", "per-token latency (s)", false),
    /** All requests at time 0; requests per second until the last end, by mean output tokens (NEO Figure 9). */
    THROUGHPUT("throughput", "mean output tokens", "throughput, relative to the first system", true),
    /** All requests at time 0; input and output tokens per second until the last end (NEO Figure 10b). */
    TOTAL_TOKENS("total-tokens", "mean output tokens", "throughput, relative to the first system", true),
    /** GEMMs of one layer, by tokens (APEX Figure 2). */
    LINEAR_SECONDS("linear-seconds", "tokens", "time of one layer's GEMMs (s)", false),
    /** Decode attention of one layer, by batch size, on the GPU and on the CPU (APEX Figure 3). */
    ATTENTION_SECONDS("attention-seconds", "batch size", "time of one layer's attention (s)", false),
    /** The gain of a hybrid beside the product of rho_c and rho_t (APEX section 5.2). */
    SPEEDUP_FORMULA("speedup-formula", "mean output tokens", "speed-up over gpu-only, minus 1", true);

    private final String key;
    private final String horizontal;
    private final String vertical;
    private final boolean moreIsBetter;

    Experiment(String key, String horizontal, String vertical, boolean moreIsBetter) {
        this.key = key;
        this.horizontal = horizontal;
        this.vertical = vertical;
        this.moreIsBetter = moreIsBetter;
    }

    /** The name in spec files. */
    public String key() {
        return key;
    }

    /** The label of the horizontal axis. */
    public String horizontal() {
        return horizontal;
    }

    /** The label of the vertical axis. */
    public String vertical() {
        return vertical;
    }

    /** Whether a larger value is better. */
    public boolean moreIsBetter() {
        return moreIsBetter;
    }

    /** Whether diagrams show values divided by those of the panel's first system. */
    public boolean isRelative() {
        return this == THROUGHPUT || this == TOTAL_TOKENS;
    }

    /** Whether cells run requests through the scheduler; otherwise values follow from the profile alone. */
    public boolean runsRequests() {
        return switch (this) {
            case LOAD_LATENCY, LATENCY_PERCENTILES, THROUGHPUT, TOTAL_TOKENS, SPEEDUP_FORMULA -> true;
            case LINEAR_SECONDS, ATTENTION_SECONDS -> false;
        };
    }
}
