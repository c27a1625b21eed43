package dev.tandem.server.metrics;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.strategy.select.StrategySelector;
import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.CounterWithCallback;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.GaugeWithCallback;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;

/**
 * Prometheus metrics of the server and its engine. The core metrics have vLLM's names, so that its dashboards and
 * routers work unchanged; Tandem's own metrics start with {@code tandem:}.
 *
 * <p>Owned by: thread-safe.
 */
public final class ServerMetrics implements EngineListener {
    private static final String[] LABELS = {"model_name", "engine"};
    private static final double[] FIRST_TOKEN_BUCKETS = {
        .001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560
    };
    private static final double[] TOKEN_BUCKETS = {
        .01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
    };
    private static final double[] LATENCY_BUCKETS = {
        .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
    };
    private static final double[] DIFFERENCE_BUCKETS = {.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 10};
    private static final double[] LENGTH_BUCKETS = {
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000
    };

    private final PrometheusRegistry registry = new PrometheusRegistry();
    private final String model;
    private final Histogram firstToken;
    private final Histogram interToken;
    private final Histogram perToken;
    private final Histogram endToEnd;
    private final Histogram queueTime;
    private final Histogram decodeTime;
    private final Histogram promptLength;
    private final Histogram generationLength;
    private final Histogram stepTokens;
    private final Histogram shadowVerification;
    private final Counter promptTokens;
    private final Counter cachedTokens;
    private final Counter generationTokens;
    private final Counter hostTokens;
    private final Counter finished;
    private final Counter rejected;
    private final Counter shadowVerificationDropped;

    public ServerMetrics(String model) {
        this.model = model;
        firstToken = histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", FIRST_TOKEN_BUCKETS);
        interToken = histogram(
                "vllm:inter_token_latency_seconds",
                "Time between two consecutive output tokens of a request.",
                TOKEN_BUCKETS);
        perToken = histogram(
                "vllm:request_time_per_output_token_seconds",
                "Mean time per output token after the first.",
                TOKEN_BUCKETS);
        endToEnd = histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", LATENCY_BUCKETS);
        queueTime = histogram("vllm:request_queue_time_seconds", "Arrival to first scheduling.", LATENCY_BUCKETS);
        decodeTime = histogram("vllm:request_decode_time_seconds", "First token to end.", LATENCY_BUCKETS);
        promptLength = histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", LENGTH_BUCKETS);
        generationLength = histogram("vllm:request_generation_tokens", "Output tokens per request.", LENGTH_BUCKETS);
        stepTokens = histogram("vllm:iteration_tokens_total", "Tokens computed per step.", LENGTH_BUCKETS);
        shadowVerification = histogram(
                "tandem:shadow_verification_logprob_difference",
                "Difference of a token's log-probability between serving with host KV and recomputing on the GPU "
                        + "(--shadow-verification-rate).",
                DIFFERENCE_BUCKETS);
        promptTokens = counter("vllm:prompt_tokens", "Prompt tokens of finished requests.");
        cachedTokens = counter(
                "vllm:prompt_tokens_cached", "Prompt tokens of finished requests that were in the prefix cache.");
        generationTokens = counter("vllm:generation_tokens", "Output tokens.");
        hostTokens = counter("tandem:host_decode_tokens", "Output tokens whose attention read host KV.");
        finished = Counter.builder()
                .name("vllm:request_success")
                .help("Finished requests by reason.")
                .labelNames("model_name", "engine", "finished_reason")
                .register(registry);
        rejected = counter("vllm:admission_rejections", "Requests refused because the queue was full.");
        shadowVerificationDropped = counter(
                "tandem:shadow_verification_dropped",
                "Comparisons of --shadow-verification-rate that were skipped because others were still running.");
        for (FinishReason reason : FinishReason.values()) {
            finished.labelValues(model, "0", reason.wire());
        }
    }

    private Histogram histogram(String name, String help, double[] buckets) {
        Histogram histogram = Histogram.builder()
                .name(name)
                .help(help)
                .labelNames(LABELS)
                .classicOnly()
                .classicUpperBounds(buckets)
                .register(registry);
        histogram.labelValues(model, "0");
        return histogram;
    }

    private Counter counter(String name, String help) {
        Counter counter =
                Counter.builder().name(name).help(help).labelNames(LABELS).register(registry);
        counter.labelValues(model, "0");
        return counter;
    }

    /** Adds the gauges and counters whose values are read from the engine at each scrape. */
    public void watch(Supplier<EngineStats> stats, Supplier<Integer> waiting, int blockTokens) {
        gauge(
                "vllm:num_requests_running",
                "Requests that take part in steps.",
                stats,
                s -> s.requests().running());
        GaugeWithCallback.builder()
                .name("vllm:num_requests_waiting")
                .help("Requests that wait for their first step, or for KV blocks after a preemption.")
                .labelNames(LABELS)
                .callback(callback ->
                        callback.call(waiting.get() + stats.get().requests().swapped(), model, "0"))
                .register(registry);
        gauge(
                "vllm:kv_cache_usage_perc",
                "Fraction of the GPU pool's blocks in use; 1 is all.",
                stats,
                s -> usage(s.gpu()));
        gauge(
                "tandem:in_flight_tokens",
                "Host tokens between layers, whose attention the CPU computes.",
                stats,
                s -> s.requests().inFlight());
        gauge(
                "tandem:host_lost",
                "1 after the CPU has stopped computing attention and the GPU serves alone, else 0.",
                stats,
                s -> s.hostLost().isEmpty() ? 0 : 1);
        gauge(
                "tandem:host_kv_cache_usage_perc",
                "Fraction of the host pool's blocks in use; 1 is all.",
                stats,
                s -> usage(s.host()));
        counter("vllm:num_preemptions", "Preemptions.", stats, EngineStats::preemptions);
        watchPrefixCache(stats);
        Gauge.builder()
                .name("vllm:cache_config_info")
                .help("Sizes of the KV cache.")
                .labelNames("model_name", "engine", "block_size", "num_gpu_blocks", "num_cpu_blocks")
                .register(registry)
                .labelValues(
                        model,
                        "0",
                        Integer.toString(blockTokens),
                        Integer.toString(stats.get().gpu().blocks()),
                        Integer.toString(stats.get().host().blocks()))
                .set(1);
    }

    private void watchPrefixCache(Supplier<EngineStats> stats) {
        String queries = "Tokens of requests that were looked up in the prefix cache.";
        String hits = "Tokens of requests that were found in the prefix cache and not computed.";
        // routers that were made for older servers read the second name
        for (String name : List.of("vllm:prefix_cache", "vllm:gpu_prefix_cache")) {
            counter(name + "_queries", queries, stats, s -> s.prefixCache().queries());
            counter(name + "_hits", hits, stats, s -> s.prefixCache().hits());
        }
        CounterWithCallback.builder()
                .name("tandem:prefix_cache_hits")
                .help("Tokens found in the prefix cache: read where they were, or copied from the other tier.")
                .labelNames("model_name", "engine", "source")
                .callback(callback -> {
                    PrefixCacheUse use = stats.get().prefixCache();
                    callback.call(use.gpuHits(), model, "0", "gpu");
                    callback.call(use.hostHits(), model, "0", "host");
                    callback.call(use.copiedHits(), model, "0", "copied");
                })
                .register(registry);
        counter(
                "tandem:prefix_cache_evictions",
                "KV blocks whose prefix was dropped to make room, on both tiers.",
                stats,
                s -> s.prefixCache().gpu().evictions() + s.prefixCache().host().evictions());
        counter(
                "tandem:prefix_cache_demotions",
                "Host blocks to which prefixes were copied before their GPU blocks were needed.",
                stats,
                s -> s.prefixCache().demotions());
        gauge(
                "tandem:prefix_cache_usage_perc",
                "Fraction of the GPU pool's blocks that hold a prefix and are free for others; 1 is all.",
                stats,
                s -> s.gpu().blocks() == 0
                        ? 0
                        : (double) s.prefixCache().gpu().cachedBlocks()
                                / s.gpu().blocks());
    }

    /** Adds the cost model's prediction error. */
    public void watch(CostModel cost) {
        GaugeWithCallback.builder()
                .name("tandem:prediction_error")
                .help("Relative error of predicted step times, as a moving average.")
                .labelNames(LABELS)
                .callback(callback -> callback.call(cost.error(), model, "0"))
                .register(registry);
        CounterWithCallback.builder()
                .name("tandem:extrapolated_predictions")
                .help("Predictions for sizes outside the profiled range.")
                .labelNames(LABELS)
                .callback(callback -> callback.call(cost.extrapolated(), model, "0"))
                .register(registry);
    }

    /** Adds the decisions of the strategy selector. */
    public void watch(StrategySelector selector) {
        GaugeWithCallback.builder()
                .name("tandem:offloading")
                .help("1 while the guard lets requests decode on the host, 0 while it keeps to the GPU.")
                .labelNames(LABELS)
                .callback(callback -> callback.call(selector.isOffloading() ? 1 : 0, model, "0"))
                .register(registry);
        CounterWithCallback.builder()
                .name("tandem:guard_losses")
                .help("Measurement windows in which offloading was slower than the GPU alone; a pause follows each.")
                .labelNames(LABELS)
                .callback(callback -> callback.call(selector.losses(), model, "0"))
                .register(registry);
        GaugeWithCallback.builder()
                .name("tandem:measured_gain")
                .help("Gain in throughput of offloading over the GPU alone, as the guard measured it last; 0.1 is 10 %."
                        + " Absent until both are measured.")
                .labelNames(LABELS)
                .callback(callback -> selector.measuredGain().ifPresent(gain -> callback.call(gain, model, "0")))
                .register(registry);
    }

    /**
     * Adds the gain that the measured one is held against.
     *
     * @param ratio throughput of the best schedule over that of the GPU alone; NaN where it is not known
     */
    public void watchIdeal(DoubleSupplier ratio) {
        GaugeWithCallback.builder()
                .name("tandem:ideal_gain")
                .help("Gain in throughput over the GPU alone that the best schedule has on this machine, for requests"
                        + " of the mean length of those served; 0.1 is 10 %. Absent where it is not known.")
                .labelNames(LABELS)
                .callback(callback -> {
                    double best = ratio.getAsDouble();
                    if (!Double.isNaN(best)) {
                        callback.call(best - 1, model, "0");
                    }
                })
                .register(registry);
    }

    private void counter(String name, String help, Supplier<EngineStats> stats, ToDoubleFunction<EngineStats> value) {
        CounterWithCallback.builder()
                .name(name)
                .help(help)
                .labelNames(LABELS)
                .callback(callback -> callback.call(value.applyAsDouble(stats.get()), model, "0"))
                .register(registry);
    }

    private void gauge(String name, String help, Supplier<EngineStats> stats, ToDoubleFunction<EngineStats> value) {
        GaugeWithCallback.builder()
                .name(name)
                .help(help)
                .labelNames(LABELS)
                .callback(callback -> callback.call(value.applyAsDouble(stats.get()), model, "0"))
                .register(registry);
    }

    private static double usage(EngineStats.Pool pool) {
        return pool.blocks() == 0 ? 0 : (double) pool.used() / pool.blocks();
    }

    @Override
    public void step(StepRecord record) {
        stepTokens
                .labelValues(model, "0")
                .observe(record.tokens().prefill() + record.tokens().decode());
        hostTokens.labelValues(model, "0").inc(record.tokens().host());
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        firstToken.labelValues(model, "0").observe(sinceArrival / 1e9);
        generationTokens.labelValues(model, "0").inc();
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        interToken.labelValues(model, "0").observe(sincePrevious / 1e9);
        generationTokens.labelValues(model, "0").inc();
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        finished.labelValues(model, "0", reason.wire()).inc();
        promptTokens.labelValues(model, "0").inc(usage.promptTokens());
        cachedTokens.labelValues(model, "0").inc(usage.cachedTokens());
        promptLength.labelValues(model, "0").observe(usage.promptTokens());
        generationLength.labelValues(model, "0").observe(usage.completionTokens());
        endToEnd.labelValues(model, "0").observe(usage.total() / 1e9);
        queueTime.labelValues(model, "0").observe(usage.queued() / 1e9);
        if (usage.completionTokens() > 0) {
            double decode = (usage.total() - usage.timeToFirstToken()) / 1e9;
            decodeTime.labelValues(model, "0").observe(decode);
            if (usage.completionTokens() > 1) {
                perToken.labelValues(model, "0").observe(decode / (usage.completionTokens() - 1));
            }
        }
    }

    @Override
    public void comparedWithGpu(double difference) {
        shadowVerification.labelValues(model, "0").observe(difference);
    }

    @Override
    public void comparisonDropped() {
        shadowVerificationDropped.labelValues(model, "0").inc();
    }

    @Override
    public void failed(Request request) {
        finished.labelValues(model, "0", "error").inc();
    }

    /** Counts a request that was refused because the queue was full. */
    public void rejected() {
        rejected.labelValues(model, "0").inc();
    }

    /** All metrics in Prometheus's text format. */
    public byte[] scrape() {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream(16 << 10);
            PrometheusTextFormatWriter.create().write(out, registry.scrape());
            return out.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
