package dev.tandem.server.metrics;

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
import java.util.EnumMap;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.DoubleConsumer;
import java.util.stream.Stream;

/**
 * The metrics of one served model, which Prometheus scrapes.
 *
 * <p>Owned by: thread-safe.
 */
final class PrometheusMetrics implements MetricRegistry {
    private final PrometheusRegistry registry = new PrometheusRegistry();
    private final String model;
    /** The counters that have been added; guarded by this map. */
    private final Map<Metric, Counter> counters = new EnumMap<>(Metric.class);

    /**
     * Creates the metrics of one served model.
     *
     * @param model value of the label {@code model_name}
     */
    PrometheusMetrics(String model) {
        this.model = model;
    }

    @Override
    public DoubleConsumer histogram(Metric metric) {
        Histogram histogram = Histogram.builder()
                .name(metric.exposed())
                .help(metric.help())
                .labelNames(labelNames(metric))
                .classicOnly()
                .classicUpperBounds(metric.buckets())
                .register(registry);
        return histogram.labelValues(labels())::observe;
    }

    @Override
    public DoubleConsumer counter(Metric metric, String... furtherLabels) {
        synchronized (counters) {
            Counter counter = counters.computeIfAbsent(
                    metric,
                    added -> Counter.builder()
                            .name(added.exposed())
                            .help(added.help())
                            .labelNames(labelNames(added))
                            .register(registry));
            return counter.labelValues(labels(furtherLabels))::inc;
        }
    }

    @Override
    public void read(Metric metric, Consumer<Values> reader) {
        switch (metric.type()) {
            case COUNTER ->
                CounterWithCallback.builder()
                        .name(metric.exposed())
                        .help(metric.help())
                        .labelNames(labelNames(metric))
                        .callback(callback -> reader.accept((value, further) -> callback.call(value, labels(further))))
                        .register(registry);
            case GAUGE ->
                GaugeWithCallback.builder()
                        .name(metric.exposed())
                        .help(metric.help())
                        .labelNames(labelNames(metric))
                        .callback(callback -> reader.accept((value, further) -> callback.call(value, labels(further))))
                        .register(registry);
            case HISTOGRAM ->
                throw new IllegalArgumentException(metric + " is a histogram, whose values cannot be read at a scrape");
        }
    }

    private static String[] labelNames(Metric metric) {
        return metric.labels().toArray(String[]::new);
    }

    private String[] labels(String... further) {
        return Stream.concat(Stream.of(model, Metric.ENGINE), Stream.of(further))
                .toArray(String[]::new);
    }

    /** All metrics with their values, also those that have none yet. */
    MetricSnapshots collect() {
        return registry.scrape();
    }

    /** All metrics in Prometheus's text format. */
    byte[] scrape() {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream(16 << 10);
            PrometheusTextFormatWriter.create().write(out, collect());
            return out.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
