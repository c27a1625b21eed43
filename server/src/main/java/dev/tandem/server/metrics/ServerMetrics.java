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
import io.prometheus.metrics.core.metrics.GaugeWithCallback;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.expositionformats.PrometheusTextFormatWriter;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;

/**
 * Prometheus metrics of the server and its engine. The core metrics have vLLM's names, so that its dashboards and
 * routers work unchanged; Tandem's own metrics start with {@code tandem:}.
 *
 * <p>Owned by: thread-safe.
 */
public final class ServerMetrics implements EngineListener {
    /** Value of the label {@code engine}: a server has one. */
    private static final String ENGINE = "0";

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
        firstToken = histogram(Metric.TIME_TO_FIRST_TOKEN, FIRST_TOKEN_BUCKETS);
        interToken = histogram(Metric.INTER_TOKEN_LATENCY, TOKEN_BUCKETS);
        perToken = histogram(Metric.TIME_PER_OUTPUT_TOKEN, TOKEN_BUCKETS);
        endToEnd = histogram(Metric.E2E_LATENCY, LATENCY_BUCKETS);
        queueTime = histogram(Metric.QUEUE_TIME, LATENCY_BUCKETS);
        decodeTime = histogram(Metric.DECODE_TIME, LATENCY_BUCKETS);
        promptLength = histogram(Metric.REQUEST_PROMPT_TOKENS, LENGTH_BUCKETS);
        generationLength = histogram(Metric.REQUEST_GENERATION_TOKENS, LENGTH_BUCKETS);
        stepTokens = histogram(Metric.STEP_TOKENS, LENGTH_BUCKETS);
        shadowVerification = histogram(Metric.SHADOW_VERIFICATION_DIFFERENCE, DIFFERENCE_BUCKETS);
        promptTokens = counter(Metric.PROMPT_TOKENS);
        cachedTokens = counter(Metric.PROMPT_TOKENS_CACHED);
        generationTokens = counter(Metric.GENERATION_TOKENS);
        hostTokens = counter(Metric.HOST_DECODE_TOKENS);
        finished = unset(Metric.REQUEST_SUCCESS);
        rejected = counter(Metric.ADMISSION_REJECTIONS);
        shadowVerificationDropped = counter(Metric.SHADOW_VERIFICATION_DROPPED);
        for (FinishReason reason : FinishReason.values()) {
            finished.labelValues(model, ENGINE, reason.wire());
        }
    }

    private Histogram histogram(Metric metric, double[] buckets) {
        Histogram histogram = Histogram.builder()
                .name(metric.exposed)
                .help(metric.help)
                .labelNames(metric.labels())
                .classicOnly()
                .classicUpperBounds(buckets)
                .register(registry);
        histogram.labelValues(model, ENGINE);
        return histogram;
    }

    private Counter counter(Metric metric) {
        Counter counter = unset(metric);
        counter.labelValues(model, ENGINE);
        return counter;
    }

    /** A counter without values, until its further labels are known. */
    private Counter unset(Metric metric) {
        return Counter.builder()
                .name(metric.exposed)
                .help(metric.help)
                .labelNames(metric.labels())
                .register(registry);
    }

    /** Adds the gauges and counters whose values are read from the engine at each scrape. */
    public void watch(Supplier<EngineStats> stats, Supplier<Integer> waiting, int blockTokens) {
        read(Metric.REQUESTS_RUNNING, () -> stats.get().requests().running());
        read(
                Metric.REQUESTS_WAITING,
                () -> waiting.get() + stats.get().requests().swapped());
        read(Metric.KV_CACHE_USAGE, () -> usage(stats.get().gpu()));
        read(Metric.IN_FLIGHT_TOKENS, () -> stats.get().requests().inFlight());
        read(Metric.HOST_LOST, () -> stats.get().hostLost().isEmpty() ? 0 : 1);
        read(Metric.HOST_KV_CACHE_USAGE, () -> usage(stats.get().host()));
        read(Metric.PREEMPTIONS, () -> stats.get().preemptions());
        watchPrefixCache(() -> stats.get().prefixCache());
        read(Metric.PREFIX_CACHE_USAGE, () -> cached(stats.get()));
        EngineStats now = stats.get();
        String[] sizes = {
            Integer.toString(blockTokens),
            Integer.toString(now.gpu().blocks()),
            Integer.toString(now.host().blocks())
        };
        readAll(Metric.CACHE_CONFIG, values -> values.set(1, sizes));
    }

    private void watchPrefixCache(Supplier<PrefixCacheUse> use) {
        read(Metric.PREFIX_CACHE_QUERIES, () -> use.get().queries());
        read(Metric.PREFIX_CACHE_HITS, () -> use.get().hits());
        read(Metric.GPU_PREFIX_CACHE_QUERIES, () -> use.get().queries());
        read(Metric.GPU_PREFIX_CACHE_HITS, () -> use.get().hits());
        readAll(Metric.PREFIX_CACHE_HITS_BY_SOURCE, values -> {
            PrefixCacheUse now = use.get();
            values.set(now.gpuHits(), "gpu");
            values.set(now.hostHits(), "host");
            values.set(now.copiedHits(), "copied");
        });
        read(Metric.PREFIX_CACHE_EVICTIONS, () -> {
            PrefixCacheUse now = use.get();
            return now.gpu().evictions() + now.host().evictions();
        });
        read(Metric.PREFIX_CACHE_DEMOTIONS, () -> use.get().demotions());
    }

    /** Adds how many batches of KV events were published, and how many were dropped. */
    public void watchKvEvents(LongSupplier published, LongSupplier dropped) {
        readAll(Metric.KV_EVENT_BATCHES, values -> {
            values.set(published.getAsLong(), "published");
            values.set(dropped.getAsLong(), "dropped");
        });
    }

    /** Adds the cost model's prediction error. */
    public void watch(CostModel cost) {
        read(Metric.PREDICTION_ERROR, cost::error);
        read(Metric.EXTRAPOLATED_PREDICTIONS, cost::extrapolated);
    }

    /** Adds the decisions of the strategy selector. */
    public void watch(StrategySelector selector) {
        read(Metric.OFFLOADING, () -> selector.isOffloading() ? 1 : 0);
        read(Metric.GUARD_LOSSES, selector::losses);
        readAll(Metric.MEASURED_GAIN, values -> selector.measuredGain().ifPresent(values::set));
    }

    /**
     * Adds the gain that the measured one is held against.
     *
     * @param ratio throughput of the best schedule over that of the GPU alone; NaN where it is not known
     */
    public void watchIdeal(DoubleSupplier ratio) {
        readAll(Metric.IDEAL_GAIN, values -> {
            double best = ratio.getAsDouble();
            if (!Double.isNaN(best)) {
                values.set(best - 1);
            }
        });
    }

    /** Adds the number of spans that were lost so far. */
    public void watchTraces(LongSupplier dropped) {
        read(Metric.TRACE_SPANS_DROPPED, dropped::getAsLong);
    }

    /** Receives the values of one metric during a scrape. */
    private interface Values {
        void set(double value, String... furtherLabels);
    }

    /** Adds a counter or gauge whose one value is read at each scrape. */
    private void read(Metric metric, DoubleSupplier value) {
        readAll(metric, values -> values.set(value.getAsDouble()));
    }

    /** Adds a counter or gauge whose values are read at each scrape; it may have none. */
    private void readAll(Metric metric, Consumer<Values> reader) {
        switch (metric.type) {
            case COUNTER ->
                CounterWithCallback.builder()
                        .name(metric.exposed)
                        .help(metric.help)
                        .labelNames(metric.labels())
                        .callback(callback -> reader.accept((value, further) -> callback.call(value, labels(further))))
                        .register(registry);
            case GAUGE ->
                GaugeWithCallback.builder()
                        .name(metric.exposed)
                        .help(metric.help)
                        .labelNames(metric.labels())
                        .callback(callback -> reader.accept((value, further) -> callback.call(value, labels(further))))
                        .register(registry);
            case HISTOGRAM ->
                throw new IllegalArgumentException(metric + " is a histogram, whose values cannot be read at a scrape");
        }
    }

    private String[] labels(String... further) {
        return Stream.concat(Stream.of(model, ENGINE), Stream.of(further)).toArray(String[]::new);
    }

    private static double cached(EngineStats stats) {
        int blocks = stats.gpu().blocks();
        return blocks == 0 ? 0 : (double) stats.prefixCache().gpu().cachedBlocks() / blocks;
    }

    private static double usage(EngineStats.Pool pool) {
        return pool.blocks() == 0 ? 0 : (double) pool.used() / pool.blocks();
    }

    @Override
    public void step(StepRecord record) {
        stepTokens
                .labelValues(model, ENGINE)
                .observe(record.tokens().prefill() + record.tokens().decode());
        hostTokens.labelValues(model, ENGINE).inc(record.tokens().host());
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        firstToken.labelValues(model, ENGINE).observe(sinceArrival / 1e9);
        generationTokens.labelValues(model, ENGINE).inc();
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        interToken.labelValues(model, ENGINE).observe(sincePrevious / 1e9);
        generationTokens.labelValues(model, ENGINE).inc();
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        finished.labelValues(model, ENGINE, reason.wire()).inc();
        promptTokens.labelValues(model, ENGINE).inc(usage.promptTokens());
        cachedTokens.labelValues(model, ENGINE).inc(usage.cachedTokens());
        promptLength.labelValues(model, ENGINE).observe(usage.promptTokens());
        generationLength.labelValues(model, ENGINE).observe(usage.completionTokens());
        endToEnd.labelValues(model, ENGINE).observe(usage.total() / 1e9);
        queueTime.labelValues(model, ENGINE).observe(usage.queued() / 1e9);
        if (usage.completionTokens() > 0) {
            double decode = (usage.total() - usage.timeToFirstToken()) / 1e9;
            decodeTime.labelValues(model, ENGINE).observe(decode);
            if (usage.completionTokens() > 1) {
                perToken.labelValues(model, ENGINE).observe(decode / (usage.completionTokens() - 1));
            }
        }
    }

    @Override
    public void comparedWithGpu(double difference) {
        shadowVerification.labelValues(model, ENGINE).observe(difference);
    }

    @Override
    public void comparisonDropped() {
        shadowVerificationDropped.labelValues(model, ENGINE).inc();
    }

    @Override
    public void failed(Request request, String message) {
        finished.labelValues(model, ENGINE, "error").inc();
    }

    /** Counts a request that was refused because the queue was full. */
    public void rejected() {
        rejected.labelValues(model, ENGINE).inc();
    }

    /** All metrics with their values, also those that have none yet. */
    MetricSnapshots collect() {
        return registry.scrape();
    }

    /** All metrics in Prometheus's text format. */
    public byte[] scrape() {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream(16 << 10);
            PrometheusTextFormatWriter.create().write(out, collect());
            return out.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
