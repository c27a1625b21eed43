package dev.tandem.engine.request;

/**
 * The span of a distributed trace that caused a request. The engine carries it for its listeners, and nothing else.
 *
 * @param traceId of the trace, 32 hexadecimal digits
 * @param spanId of the span, 16 hexadecimal digits
 * @param state what vendors added to the trace, as W3C's {@code tracestate} spells it; may be empty
 * @param operation what was asked for, by OpenTelemetry's name: {@code chat} or {@code text_completion}
 */
public record TraceParent(String traceId, String spanId, String state, String operation) {}
