package dev.tandem.server.metrics;

import io.prometheus.metrics.model.snapshots.MetricSnapshots;
import java.util.function.LongSupplier;

/**
 * The metrics of a server and its engine, which Prometheus scrapes.
 *
 * <p>Owned by: thread-safe.
 */
public final class ServerMetrics extends EngineMetrics {
    private final PrometheusMetrics registry;

    /**
     * Creates the metrics of one served model.
     *
     * @param model value of the label {@code model_name}
     */
    public ServerMetrics(String model) {
        this(new PrometheusMetrics(model));
    }

    private ServerMetrics(PrometheusMetrics registry) {
        super(registry);
        this.registry = registry;
    }

    /** Adds how many batches of KV events were published, and how many were dropped. */
    public void watchKvEvents(LongSupplier published, LongSupplier dropped) {
        registry.read(Metric.KV_EVENT_BATCHES, values -> {
            values.set(published.getAsLong(), "published");
            values.set(dropped.getAsLong(), "dropped");
        });
    }

    /** Adds the number of spans that were lost so far. */
    public void watchTraces(LongSupplier dropped) {
        registry.read(Metric.TRACE_SPANS_DROPPED, values -> values.set(dropped.getAsLong()));
    }

    /** All metrics with their values, also those that have none yet. */
    MetricSnapshots collect() {
        return registry.collect();
    }

    /** All metrics in Prometheus's text format. */
    public byte[] scrape() {
        return registry.scrape();
    }
}
