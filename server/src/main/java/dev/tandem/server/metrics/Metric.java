package dev.tandem.server.metrics;

import java.util.List;
import java.util.stream.Stream;

/**
 * The metrics that a server can have, as {@code /metrics} names them. The core ones have vLLM's names; Tandem's own
 * begin with {@code tandem:}. A test writes the reference page from this table, and another checks the names in the
 * dashboard and the alert rules against it.
 */
public enum Metric {
    TIME_TO_FIRST_TOKEN(
            "vllm:time_to_first_token_seconds",
            Buckets.FIRST_TOKEN,
            Unit.SECONDS,
            "Arrival of a request to its first token."),
    INTER_TOKEN_LATENCY(
            "vllm:inter_token_latency_seconds",
            Buckets.TOKEN,
            Unit.SECONDS,
            "Time between two consecutive output tokens of a request."),
    TIME_PER_OUTPUT_TOKEN(
            "vllm:request_time_per_output_token_seconds",
            Buckets.TOKEN,
            Unit.SECONDS,
            "Mean time per output token after the first, per request."),
    E2E_LATENCY("vllm:e2e_request_latency_seconds", Buckets.LATENCY, Unit.SECONDS, "Arrival of a request to its end."),
    QUEUE_TIME(
            "vllm:request_queue_time_seconds",
            Buckets.LATENCY,
            Unit.SECONDS,
            "Arrival of a request to its first scheduling."),
    DECODE_TIME(
            "vllm:request_decode_time_seconds", Buckets.LATENCY, Unit.SECONDS, "First token of a request to its end."),
    REQUEST_PROMPT_TOKENS(
            "vllm:request_prompt_tokens", Buckets.LENGTH, Unit.TOKENS, "Prompt tokens per finished request."),
    REQUEST_GENERATION_TOKENS(
            "vllm:request_generation_tokens", Buckets.LENGTH, Unit.TOKENS, "Output tokens per finished request."),
    STEP_TOKENS("vllm:iteration_tokens_total", Buckets.LENGTH, Unit.TOKENS, "Tokens computed per step."),
    PROMPT_TOKENS("vllm:prompt_tokens_total", Type.COUNTER, Unit.TOKENS, "Prompt tokens of finished requests."),
    PROMPT_TOKENS_CACHED(
            "vllm:prompt_tokens_cached_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Prompt tokens of finished requests that were in the prefix cache."),
    PROMPT_TOKENS_BY_SOURCE(
            "vllm:prompt_tokens_by_source_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Prompt tokens of finished requests: computed, found in GPU blocks, or found in host blocks.",
            "source"),
    GENERATION_TOKENS("vllm:generation_tokens_total", Type.COUNTER, Unit.TOKENS, "Output tokens."),
    REQUEST_SUCCESS(
            "vllm:request_success_total",
            Type.COUNTER,
            Unit.REQUESTS,
            "Ended requests by reason: stop, length, abort, or error.",
            "finished_reason"),
    ADMISSION_REJECTIONS(
            "vllm:admission_rejections_total",
            Type.COUNTER,
            Unit.REQUESTS,
            "Requests refused because the queue was full."),
    REQUESTS_RUNNING("vllm:num_requests_running", Type.GAUGE, Unit.REQUESTS, "Requests that take part in steps."),
    REQUESTS_WAITING(
            "vllm:num_requests_waiting",
            Type.GAUGE,
            Unit.REQUESTS,
            "Requests that wait for their first step, or for KV blocks after a preemption."),
    PREEMPTIONS("vllm:num_preemptions_total", Type.COUNTER, Unit.EVENTS, "Preemptions."),
    KV_CACHE_USAGE(
            "vllm:kv_cache_usage_perc",
            Type.GAUGE,
            Unit.FRACTION,
            "Fraction of the GPU pool's blocks in use; 1 is all."),
    GPU_CACHE_USAGE(
            "vllm:gpu_cache_usage_perc",
            Type.GAUGE,
            Unit.FRACTION,
            "The same as vllm:kv_cache_usage_perc, for routers made for older servers."),
    CACHE_CONFIG(
            "vllm:cache_config_info",
            Type.GAUGE,
            Unit.NONE,
            "Sizes of the KV cache in blocks of all layers, as labels; the value is 1.",
            "block_size",
            "num_gpu_blocks",
            "num_cpu_blocks"),
    PREFIX_CACHE_QUERIES(
            "vllm:prefix_cache_queries_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Tokens of requests that were looked up in the prefix cache."),
    PREFIX_CACHE_HITS(
            "vllm:prefix_cache_hits_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Tokens of requests that were found in GPU blocks and not computed."),
    EXTERNAL_PREFIX_CACHE_QUERIES(
            "vllm:external_prefix_cache_queries_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Tokens of vllm:prefix_cache_queries_total that were not found in GPU blocks; 0 without a host tier."),
    EXTERNAL_PREFIX_CACHE_HITS(
            "vllm:external_prefix_cache_hits_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Tokens of requests that were found in host blocks and not computed."),
    GPU_PREFIX_CACHE_QUERIES(
            "vllm:gpu_prefix_cache_queries_total",
            Type.COUNTER,
            Unit.TOKENS,
            "The same as vllm:prefix_cache_queries_total, for routers made for older servers."),
    GPU_PREFIX_CACHE_HITS(
            "vllm:gpu_prefix_cache_hits_total",
            Type.COUNTER,
            Unit.TOKENS,
            "The same as vllm:prefix_cache_hits_total, for routers made for older servers."),
    KV_OFFLOAD_LOAD_BYTES(
            "vllm:kv_offload_load_bytes_total",
            Type.COUNTER,
            Unit.BYTES,
            "KV copied from host blocks to the GPU, counted when the step that copies it is planned."),
    KV_OFFLOAD_STORE_BYTES(
            "vllm:kv_offload_store_bytes_total",
            Type.COUNTER,
            Unit.BYTES,
            "KV copied from the GPU to host blocks, counted when the step that copies it is planned."),
    HOST_DECODE_TOKENS(
            "tandem:host_decode_tokens_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Output tokens whose attention read host KV."),
    STEPS_SAMPLED_LATER(
            "tandem:steps_sampled_later_total",
            Type.COUNTER,
            Unit.EVENTS,
            "Steps whose layers were submitted before the tokens were known that their grammars and penalties need."),
    BITMASK_WAIT(
            "tandem:bitmask_wait_seconds_total",
            Type.COUNTER,
            Unit.SECONDS,
            "Time that steps waited for bitmasks of grammars."),
    LATE_BITMASKS(
            "tandem:late_bitmasks_total",
            Type.COUNTER,
            Unit.EVENTS,
            "Rows that a step computed and did not sample, because their bitmask was late."),
    HOST_WAIT(
            "tandem:host_wait_seconds_total",
            Type.COUNTER,
            Unit.SECONDS,
            "Time that the GPU waited for attention on the CPU, with the copy of its results."),
    IN_FLIGHT_TOKENS(
            "tandem:in_flight_tokens",
            Type.GAUGE,
            Unit.TOKENS,
            "Host tokens between layers when the last step ended; 0 on the CPU executor, whose steps finish them."),
    HOST_LOST(
            "tandem:host_lost",
            Type.GAUGE,
            Unit.BOOLEAN,
            "1 after the CPU has stopped computing attention and the GPU serves alone, else 0."),
    HOST_KV_CACHE_USAGE(
            "tandem:host_kv_cache_usage_perc",
            Type.GAUGE,
            Unit.FRACTION,
            "Fraction of the host pool's blocks in use; 1 is all."),
    KV_BLOCKS(
            "tandem:kv_blocks",
            Type.GAUGE,
            Unit.BLOCKS,
            "KV blocks of a tier by state; those of all states are the pool.",
            "tier",
            "state"),
    PREFIX_CACHE_HITS_BY_SOURCE(
            "tandem:prefix_cache_hits_total",
            Type.COUNTER,
            Unit.TOKENS,
            "Tokens found in the prefix cache: read where they were, or copied from the other tier.",
            "source"),
    PREFIX_CACHE_EVICTIONS(
            "tandem:prefix_cache_evictions_total",
            Type.COUNTER,
            Unit.BLOCKS,
            "KV blocks whose prefix was dropped to make room, on both tiers."),
    PREFIX_CACHE_DEMOTIONS(
            "tandem:prefix_cache_demotions_total",
            Type.COUNTER,
            Unit.BLOCKS,
            "Host blocks to which prefixes were copied before their GPU blocks were needed."),
    KV_EVENT_BATCHES(
            "tandem:kv_event_batches_total",
            Type.COUNTER,
            Unit.BATCHES,
            "Batches of KV events, one per step with some: published, or dropped because the queue was full.",
            "outcome"),
    PREFIX_CACHE_USAGE(
            "tandem:prefix_cache_usage_perc",
            Type.GAUGE,
            Unit.FRACTION,
            "Fraction of the GPU pool's blocks that hold a prefix and are free for others; 1 is all."),
    SHADOW_VERIFICATION_DIFFERENCE(
            "tandem:shadow_verification_logprob_difference",
            Buckets.DIFFERENCE,
            Unit.NATS,
            "Difference of a token's log-probability between host KV and recomputing on the GPU."),
    SHADOW_VERIFICATION_DROPPED(
            "tandem:shadow_verification_dropped_total",
            Type.COUNTER,
            Unit.EVENTS,
            "Comparisons of --shadow-verification-rate that were skipped because others were still running."),
    PREDICTION_ERROR(
            "tandem:prediction_error",
            Type.GAUGE,
            Unit.FRACTION,
            "Relative error of predicted step times, as a moving average; only with a cost model."),
    EXTRAPOLATED_PREDICTIONS(
            "tandem:extrapolated_predictions_total",
            Type.COUNTER,
            Unit.EVENTS,
            "Predictions for sizes outside the profiled range; only with a cost model."),
    OFFLOADING(
            "tandem:offloading",
            Type.GAUGE,
            Unit.BOOLEAN,
            "1 while the guard lets requests decode on the host, else 0; only with a guard."),
    GUARD_LOSSES(
            "tandem:guard_losses_total",
            Type.COUNTER,
            Unit.EVENTS,
            "Measured windows in which offloading lost against the GPU alone; only with a guard."),
    MEASURED_GAIN(
            "tandem:measured_gain",
            Type.GAUGE,
            Unit.FRACTION,
            "Offloading's gain over the GPU alone, as the guard last measured it; only once it has."),
    TRACE_SPANS_DROPPED(
            "tandem:trace_spans_dropped_total",
            Type.COUNTER,
            Unit.SPANS,
            "Spans lost because the queue was full or the collector refused them; only with --otlp-traces-endpoint."),
    IDEAL_GAIN(
            "tandem:ideal_gain",
            Type.GAUGE,
            Unit.FRACTION,
            "The best schedule's gain over the GPU alone, for requests of the served mean length; only where known.");

    /** What kind of metric it is, as Prometheus has them. */
    public enum Type {
        COUNTER,
        GAUGE,
        HISTOGRAM
    }

    /** What one of its values counts. */
    public enum Unit {
        SECONDS("seconds"),
        TOKENS("tokens"),
        REQUESTS("requests"),
        BLOCKS("KV blocks"),
        BYTES("bytes"),
        EVENTS("events"),
        BATCHES("batches"),
        SPANS("spans"),
        FRACTION("fraction, 0.1 is 10 %"),
        BOOLEAN("0 or 1"),
        NATS("natural logarithm"),
        NONE("none");

        final String text;

        Unit(String text) {
            this.text = text;
        }
    }

    /** Upper bounds of histograms' buckets, vLLM's for its own metrics. */
    private enum Buckets {
        FIRST_TOKEN(
                .001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
        TOKEN(.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80),
        LATENCY(.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680),
        DIFFERENCE(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 10),
        LENGTH(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000),
        NONE;

        private final double[] bounds;

        Buckets(double... bounds) {
            this.bounds = bounds;
        }
    }

    /** Labels that every metric has. */
    static final List<String> LABELS = List.of("model_name", "engine");
    /** Value of the label {@code engine}: a server has one. */
    public static final String ENGINE = "0";

    private final String exposed;
    private final Type type;
    private final Buckets buckets;
    private final Unit unit;
    private final String help;
    private final List<String> furtherLabels;

    Metric(String exposed, Type type, Unit unit, String help, String... furtherLabels) {
        this(exposed, type, Buckets.NONE, unit, help, furtherLabels);
    }

    Metric(String exposed, Buckets buckets, Unit unit, String help) {
        this(exposed, Type.HISTOGRAM, buckets, unit, help);
    }

    Metric(String exposed, Type type, Buckets buckets, Unit unit, String help, String... furtherLabels) {
        this.exposed = exposed;
        this.type = type;
        this.buckets = buckets;
        this.unit = unit;
        this.help = help;
        this.furtherLabels = List.of(furtherLabels);
    }

    /** The name in {@code /metrics}. */
    public String exposed() {
        return exposed;
    }

    /** What kind of metric it is. */
    public Type type() {
        return type;
    }

    /** Upper bounds of a histogram's buckets, without infinity; none for other metrics. */
    public double[] buckets() {
        return buckets.bounds.clone();
    }

    /** What one of its values counts. */
    public Unit unit() {
        return unit;
    }

    /** What it says, as one sentence. */
    public String help() {
        return help;
    }

    /** The labels that not every metric has. */
    public List<String> furtherLabels() {
        return furtherLabels;
    }

    /** All labels, in the order in which values are given: {@code model_name}, {@code engine}, then its own. */
    public List<String> labels() {
        return Stream.concat(LABELS.stream(), furtherLabels.stream()).toList();
    }
}
