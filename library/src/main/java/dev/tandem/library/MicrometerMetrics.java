package dev.tandem.library;

import dev.tandem.server.metrics.Metric;
import dev.tandem.server.metrics.MetricRegistry;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.DoubleConsumer;
import java.util.function.DoubleSupplier;

/**
 * Metrics as meters of Micrometer: times are timers, other histograms distribution summaries, with the same buckets.
 *
 * <p>Owned by: thread-safe.
 */
final class MicrometerMetrics implements MetricRegistry {
    private final MeterRegistry registry;
    private final Tags ofModel;
    private final Queue<Meter> meters = new ConcurrentLinkedQueue<>();

    /** @param model value of the tag {@code model_name} */
    MicrometerMetrics(MeterRegistry registry, String model) {
        this.registry = registry;
        this.ofModel = Tags.of("model_name", model, "engine", Metric.ENGINE);
    }

    @Override
    public DoubleConsumer histogram(Metric metric) {
        if (metric.unit() == Metric.Unit.SECONDS) {
            Timer timer = Timer.builder(metric.exposed())
                    .description(metric.help())
                    .tags(ofModel)
                    .serviceLevelObjectives(Arrays.stream(metric.buckets())
                            .mapToObj(MicrometerMetrics::duration)
                            .toArray(Duration[]::new))
                    .register(registry);
            meters.add(timer);
            return seconds -> timer.record(Math.round(seconds * 1e9), TimeUnit.NANOSECONDS);
        }
        DistributionSummary summary = DistributionSummary.builder(metric.exposed())
                .description(metric.help())
                .tags(ofModel)
                .serviceLevelObjectives(metric.buckets())
                .register(registry);
        meters.add(summary);
        return summary::record;
    }

    private static Duration duration(double seconds) {
        return Duration.ofNanos(Math.round(seconds * 1e9));
    }

    @Override
    public DoubleConsumer counter(Metric metric, String... furtherLabels) {
        Counter counter = Counter.builder(metric.exposed())
                .description(metric.help())
                .tags(tags(metric, List.of(furtherLabels)))
                .register(registry);
        meters.add(counter);
        return counter::increment;
    }

    /**
     * Adds one meter for each combination of labels that the metric has now, and one without labels where it has none.
     */
    @Override
    public void read(Metric metric, Consumer<Values> reader) {
        Set<List<String>> combinations = new LinkedHashSet<>();
        reader.accept((value, further) -> combinations.add(List.of(further)));
        if (metric.furtherLabels().isEmpty()) {
            combinations.add(List.of());
        }
        for (List<String> labels : combinations) {
            add(metric, tags(metric, labels), () -> value(reader, labels));
        }
    }

    /** The value with these labels; NaN while there is none. */
    private static double value(Consumer<MetricRegistry.Values> reader, List<String> labels) {
        double[] found = {Double.NaN};
        reader.accept((value, further) -> {
            if (labels.equals(List.of(further))) {
                found[0] = value;
            }
        });
        return found[0];
    }

    /** A function counter holds its object weakly and its function strongly, so that the function has the values. */
    private void add(Metric metric, Tags tags, DoubleSupplier value) {
        switch (metric.type()) {
            case COUNTER ->
                meters.add(FunctionCounter.builder(metric.exposed(), this, self -> value.getAsDouble())
                        .description(metric.help())
                        .tags(tags)
                        .register(registry));
            case GAUGE ->
                meters.add(Gauge.builder(metric.exposed(), value::getAsDouble)
                        .description(metric.help())
                        .tags(tags)
                        .register(registry));
            case HISTOGRAM ->
                throw new IllegalArgumentException(metric + " is a histogram, whose values cannot be read");
        }
    }

    private Tags tags(Metric metric, List<String> furtherLabels) {
        Tags tags = ofModel;
        for (int i = 0; i < furtherLabels.size(); i++) {
            tags = tags.and(metric.furtherLabels().get(i), furtherLabels.get(i));
        }
        return tags;
    }

    /** Removes the meters from their registry. */
    void remove() {
        meters.forEach(registry::remove);
        meters.clear();
    }
}
