package dev.tandem.server.metrics;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.kv.BlockState;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixCacheUse;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.EngineStats;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import dev.tandem.engine.strategy.select.StrategySelector;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.DoubleConsumer;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;

/**
 * Turns the engine's events and state into values of {@link Metric}s. The core metrics have vLLM's names, so that its
 * dashboards and routers work unchanged; Tandem's own metrics start with {@code tandem:}.
 *
 * <p>Owned by: thread-safe.
 */
public class EngineMetrics implements EngineListener {
    private final MetricRegistry registry;
    private final DoubleConsumer firstToken;
    private final DoubleConsumer interToken;
    private final DoubleConsumer perToken;
    private final DoubleConsumer endToEnd;
    private final DoubleConsumer queueTime;
    private final DoubleConsumer decodeTime;
    private final DoubleConsumer promptLength;
    private final DoubleConsumer generationLength;
    private final DoubleConsumer stepTokens;
    private final DoubleConsumer shadowVerification;
    private final DoubleConsumer promptTokens;
    private final DoubleConsumer cachedTokens;
    private final DoubleConsumer computedTokens;
    private final DoubleConsumer cachedOnGpu;
    private final DoubleConsumer cachedOnHost;
    private final DoubleConsumer generationTokens;
    private final DoubleConsumer hostTokens;
    private final DoubleConsumer stepsSampledLater;
    private final DoubleConsumer bitmaskWait;
    private final DoubleConsumer lateBitmasks;
    private final DoubleConsumer hostWait;
    private final Map<FinishReason, DoubleConsumer> finished = new EnumMap<>(FinishReason.class);
    private final DoubleConsumer failed;
    private final DoubleConsumer rejected;
    private final DoubleConsumer shadowVerificationDropped;

    /** Creates the metrics that count events, with the value 0. */
    public EngineMetrics(MetricRegistry registry) {
        this.registry = registry;
        firstToken = registry.histogram(Metric.TIME_TO_FIRST_TOKEN);
        interToken = registry.histogram(Metric.INTER_TOKEN_LATENCY);
        perToken = registry.histogram(Metric.TIME_PER_OUTPUT_TOKEN);
        endToEnd = registry.histogram(Metric.E2E_LATENCY);
        queueTime = registry.histogram(Metric.QUEUE_TIME);
        decodeTime = registry.histogram(Metric.DECODE_TIME);
        promptLength = registry.histogram(Metric.REQUEST_PROMPT_TOKENS);
        generationLength = registry.histogram(Metric.REQUEST_GENERATION_TOKENS);
        stepTokens = registry.histogram(Metric.STEP_TOKENS);
        shadowVerification = registry.histogram(Metric.SHADOW_VERIFICATION_DIFFERENCE);
        promptTokens = registry.counter(Metric.PROMPT_TOKENS);
        cachedTokens = registry.counter(Metric.PROMPT_TOKENS_CACHED);
        computedTokens = registry.counter(Metric.PROMPT_TOKENS_BY_SOURCE, "local_compute");
        cachedOnGpu = registry.counter(Metric.PROMPT_TOKENS_BY_SOURCE, "local_cache_hit");
        cachedOnHost = registry.counter(Metric.PROMPT_TOKENS_BY_SOURCE, "external_kv_transfer");
        generationTokens = registry.counter(Metric.GENERATION_TOKENS);
        hostTokens = registry.counter(Metric.HOST_DECODE_TOKENS);
        stepsSampledLater = registry.counter(Metric.STEPS_SAMPLED_LATER);
        bitmaskWait = registry.counter(Metric.BITMASK_WAIT);
        lateBitmasks = registry.counter(Metric.LATE_BITMASKS);
        hostWait = registry.counter(Metric.HOST_WAIT);
        for (FinishReason reason : FinishReason.values()) {
            finished.put(reason, registry.counter(Metric.REQUEST_SUCCESS, reason.wire()));
        }
        failed = registry.counter(Metric.REQUEST_SUCCESS, "error");
        rejected = registry.counter(Metric.ADMISSION_REJECTIONS);
        shadowVerificationDropped = registry.counter(Metric.SHADOW_VERIFICATION_DROPPED);
    }

    /** Adds the gauges and counters whose values are read from the engine at each scrape. */
    public void watch(Supplier<EngineStats> stats, Supplier<Integer> waiting, int blockTokens) {
        read(Metric.REQUESTS_RUNNING, () -> stats.get().requests().running());
        read(
                Metric.REQUESTS_WAITING,
                () -> waiting.get() + stats.get().requests().swapped());
        read(Metric.KV_CACHE_USAGE, () -> usage(stats.get().gpu()));
        read(Metric.GPU_CACHE_USAGE, () -> usage(stats.get().gpu()));
        read(Metric.IN_FLIGHT_TOKENS, () -> stats.get().requests().inFlight());
        read(Metric.HOST_LOST, () -> stats.get().hostLost().isEmpty() ? 0 : 1);
        read(Metric.HOST_KV_CACHE_USAGE, () -> usage(stats.get().host()));
        read(Metric.PREEMPTIONS, () -> stats.get().preemptions());
        read(Metric.KV_OFFLOAD_LOAD_BYTES, () -> stats.get().gpu().copiedBytes());
        read(Metric.KV_OFFLOAD_STORE_BYTES, () -> stats.get().host().copiedBytes());
        registry.read(Metric.KV_BLOCKS, values -> {
            EngineStats now = stats.get();
            setBlocks(values, KvTier.GPU, now.gpu());
            setBlocks(values, KvTier.HOST, now.host());
        });
        watchPrefixCache(() -> stats.get().prefixCache());
        read(Metric.EXTERNAL_PREFIX_CACHE_QUERIES, () -> externalQueries(stats.get()));
        read(Metric.PREFIX_CACHE_USAGE, () -> cached(stats.get()));
        EngineStats now = stats.get();
        String[] sizes = {
            Integer.toString(blockTokens),
            Integer.toString(now.gpu().blocks()),
            Integer.toString(now.host().blocks())
        };
        registry.read(Metric.CACHE_CONFIG, values -> values.set(1, sizes));
    }

    private void watchPrefixCache(Supplier<PrefixCacheUse> use) {
        read(Metric.PREFIX_CACHE_QUERIES, () -> use.get().queries());
        read(Metric.PREFIX_CACHE_HITS, () -> use.get().foundOnGpu());
        read(Metric.EXTERNAL_PREFIX_CACHE_HITS, () -> use.get().foundOnHost());
        read(Metric.GPU_PREFIX_CACHE_QUERIES, () -> use.get().queries());
        read(Metric.GPU_PREFIX_CACHE_HITS, () -> use.get().foundOnGpu());
        registry.read(Metric.PREFIX_CACHE_HITS_BY_SOURCE, values -> {
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

    /** Adds the cost model's prediction error. */
    public void watch(CostModel cost) {
        read(Metric.PREDICTION_ERROR, cost::error);
        read(Metric.EXTRAPOLATED_PREDICTIONS, cost::extrapolated);
    }

    /** Adds the decisions of the strategy selector. */
    public void watch(StrategySelector selector) {
        read(Metric.OFFLOADING, () -> selector.isOffloading() ? 1 : 0);
        read(Metric.GUARD_LOSSES, selector::losses);
        registry.read(Metric.MEASURED_GAIN, values -> selector.measuredGain().ifPresent(values::set));
    }

    /**
     * Adds the gain that the measured one is held against.
     *
     * @param ratio throughput of the best schedule over that of the GPU alone; NaN where it is not known
     */
    public void watchIdeal(DoubleSupplier ratio) {
        registry.read(Metric.IDEAL_GAIN, values -> {
            double best = ratio.getAsDouble();
            if (!Double.isNaN(best)) {
                values.set(best - 1);
            }
        });
    }

    /** Adds a counter or gauge whose one value is read when someone wants it. */
    private void read(Metric metric, DoubleSupplier value) {
        registry.read(metric, values -> values.set(value.getAsDouble()));
    }

    private static void setBlocks(MetricRegistry.Values values, KvTier tier, EngineStats.Pool pool) {
        for (BlockState state : BlockState.values()) {
            values.set(pool.blocks(state), label(tier), label(state));
        }
    }

    private static String label(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    private static double externalQueries(EngineStats stats) {
        PrefixCacheUse use = stats.prefixCache();
        return stats.host().blocks() == 0 ? 0 : use.queries() - use.foundOnGpu();
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
        stepTokens.accept(record.tokens().prefill() + record.tokens().decode());
        hostTokens.accept(record.tokens().host());
        stepsSampledLater.accept(record.sampling().later() ? 1 : 0);
        bitmaskWait.accept(record.sampling().waitNanos() / 1e9);
        lateBitmasks.accept(record.sampling().leftOut());
        hostWait.accept(record.times().hostWait() / 1e9);
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        firstToken.accept(sinceArrival / 1e9);
        generationTokens.accept(1);
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        interToken.accept(sincePrevious / 1e9);
        generationTokens.accept(1);
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        Objects.requireNonNull(finished.get(reason)).accept(1);
        promptTokens.accept(usage.promptTokens());
        cachedTokens.accept(usage.cachedTokens());
        computedTokens.accept(usage.promptTokens() - usage.cachedTokens());
        cachedOnGpu.accept(usage.cachedTokens() - usage.hostCachedTokens());
        cachedOnHost.accept(usage.hostCachedTokens());
        promptLength.accept(usage.promptTokens());
        generationLength.accept(usage.completionTokens());
        endToEnd.accept(usage.total() / 1e9);
        queueTime.accept(usage.queued() / 1e9);
        if (usage.completionTokens() > 0) {
            double decode = (usage.total() - usage.timeToFirstToken()) / 1e9;
            decodeTime.accept(decode);
            if (usage.completionTokens() > 1) {
                perToken.accept(decode / (usage.completionTokens() - 1));
            }
        }
    }

    @Override
    public void comparedWithGpu(double difference) {
        shadowVerification.accept(difference);
    }

    @Override
    public void comparisonDropped() {
        shadowVerificationDropped.accept(1);
    }

    @Override
    public void failed(Request request, String message) {
        failed.accept(1);
    }

    /** Counts a request that was refused because the queue was full. */
    public void rejected() {
        rejected.accept(1);
    }
}
