/**
 * Metrics under vLLM's names, for Prometheus and other libraries. Entry point:
 * {@link dev.tandem.server.metrics.EngineMetrics}.
 *
 * <p>Owned by: thread-safe; the engine thread counts, any thread scrapes.
 */
@NullMarked
package dev.tandem.server.metrics;

import org.jspecify.annotations.NullMarked;
