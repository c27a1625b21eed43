package dev.tandem.spring;

import dev.tandem.engine.observe.EngineStats;
import dev.tandem.library.Tandem;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.function.ToDoubleFunction;

/**
 * Queues, KV memory and the prefix cache as meters, under the words of the server's metrics. Times and tokens of
 * requests are in Spring AI's own observations.
 *
 * <p>Owned by: thread-safe.
 */
final class TandemMetrics implements MeterBinder {
    private final Tandem tandem;

    TandemMetrics(Tandem tandem) {
        this.tandem = tandem;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        Tags model = Tags.of("model", tandem.model());
        gauge(
                registry,
                "tandem.requests.running",
                "Requests that take part in steps",
                model,
                stats -> stats.requests().running());
        gauge(
                registry,
                "tandem.requests.waiting",
                "Requests that wait for their first step, or for KV blocks after a preemption",
                model,
                stats -> stats.requests().waiting()
                        + stats.requests().dropped()
                        + stats.requests().swapped());
        gauge(registry, "tandem.kv.cache.usage", USAGE, model.and("tier", "gpu"), stats -> used(stats.gpu()));
        gauge(registry, "tandem.kv.cache.usage", USAGE, model.and("tier", "host"), stats -> used(stats.host()));
        counter(registry, "tandem.preemptions", "Preemptions", model, EngineStats::preemptions);
        counter(
                registry,
                "tandem.prefix.cache.queries",
                "Tokens of requests that were looked up in the prefix cache",
                model,
                stats -> stats.prefixCache().queries());
        counter(
                registry,
                "tandem.prefix.cache.hits",
                "Tokens of requests that were found in the prefix cache",
                model,
                stats -> stats.prefixCache().hits());
    }

    private static final String USAGE = "Fraction of a tier's KV blocks in use";

    private static double used(EngineStats.Pool pool) {
        return pool.blocks() == 0 ? 0 : (double) pool.used() / pool.blocks();
    }

    private void gauge(
            MeterRegistry registry, String name, String what, Tags tags, ToDoubleFunction<EngineStats> value) {
        Gauge.builder(name, tandem, model -> value.applyAsDouble(model.stats()))
                .description(what)
                .tags(tags)
                .register(registry);
    }

    private void counter(
            MeterRegistry registry, String name, String what, Tags tags, ToDoubleFunction<EngineStats> value) {
        FunctionCounter.builder(name, tandem, model -> value.applyAsDouble(model.stats()))
                .description(what)
                .tags(tags)
                .register(registry);
    }
}
