/**
 * Traces of requests for an OpenTelemetry collector. Entry point: {@link dev.tandem.server.trace.RequestTracing}.
 *
 * <p>Owned by: thread-safe; the engine thread and the requests' threads add spans, one thread sends them.
 */
@NullMarked
package dev.tandem.server.trace;

import org.jspecify.annotations.NullMarked;
