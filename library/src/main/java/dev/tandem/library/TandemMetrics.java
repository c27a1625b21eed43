package dev.tandem.library;

import dev.tandem.server.metrics.EngineMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.List;

/**
 * The metrics of a model as meters of Micrometer.
 *
 * <pre>{@code
 * try (var metrics = new TandemMetrics(tandem)) {
 *     metrics.bindTo(registry);
 *     ...
 * }
 * }</pre>
 *
 * <p>Meters have the names of the server's {@code /metrics}, which Micrometer's registry for Prometheus keeps. Those of
 * a server alone are left out: KV events and traces. The class needs {@code micrometer-core}, which the library does
 * not bring along.
 *
 * <p>Owned by: thread-safe. Closing it removes its meters; close it before the model.
 */
public final class TandemMetrics implements MeterBinder, AutoCloseable {
    private final Tandem tandem;
    /** End what {@link #bindTo} has begun; guarded by this list. */
    private final List<Runnable> ends = new ArrayList<>();

    /** Creates metrics that no registry has yet. */
    public TandemMetrics(Tandem tandem) {
        this.tandem = tandem;
    }

    /** Adds the meters to a registry; events before that are not counted. */
    @Override
    public void bindTo(MeterRegistry registry) {
        MicrometerMetrics meters = new MicrometerMetrics(registry, tandem.model());
        synchronized (ends) {
            ends.add(tandem.watchedBy(new EngineMetrics(meters)));
            ends.add(meters::remove);
        }
    }

    @Override
    public void close() {
        synchronized (ends) {
            ends.forEach(Runnable::run);
            ends.clear();
        }
    }
}
