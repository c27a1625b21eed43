/**
 * Prometheus metrics under vLLM's names. Entry point: {@link dev.tandem.server.metrics.ServerMetrics}.
 *
 * <p>Owned by: thread-safe; the engine thread counts, any thread scrapes.
 */
@NullMarked
package dev.tandem.server.metrics;

import org.jspecify.annotations.NullMarked;
