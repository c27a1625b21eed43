package dev.tandem.server.metrics;

import java.util.function.Consumer;
import java.util.function.DoubleConsumer;

/**
 * Where the values of metrics go: Prometheus' client in a server, another metrics library inside a program.
 *
 * <p>Owned by: thread-safe, as are the consumers that it makes.
 */
public interface MetricRegistry {
    /** Adds a histogram with the metric's buckets; the result takes its values. */
    DoubleConsumer histogram(Metric metric);

    /**
     * Adds a counter, or a further series of one; the result adds to it.
     *
     * @param furtherLabels values of the metric's own labels
     */
    DoubleConsumer counter(Metric metric, String... furtherLabels);

    /** Adds a counter or gauge whose values are read when someone wants them; it may have none at times. */
    void read(Metric metric, Consumer<Values> reader);

    /** Receives the values of one metric while they are read. */
    interface Values {
        /**
         * Takes a value.
         *
         * @param furtherLabels values of the metric's own labels
         */
        void set(double value, String... furtherLabels);
    }
}
