package dev.tandem.server.trace;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.KvMove;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TraceParent;
import dev.tandem.engine.request.Usage;
import dev.tandem.server.http.Exchange;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.random.RandomGenerator;

/**
 * Makes the spans of a request. Names and attributes are OpenTelemetry's for HTTP servers and for generative AI; what
 * these do not have begins with {@code tandem.}.
 *
 * <pre>
 *   POST /v1/chat/completions     the HTTP request; its parent is the client's span
 *     chat MODEL                  each request of the engine, one per choice; moves of its KV are events
 *       queue, prefill, decode
 * </pre>
 *
 * <p>Owned by: thread-safe.
 */
public final class RequestTracing implements EngineListener {
    private static final int TRACE_ID_BYTES = 16;
    private static final int SPAN_ID_BYTES = 8;
    private static final int SERVER_ERROR = 500;

    private final SpanExporter exporter;
    private final String model;
    private final InstantSource time;
    private final RandomGenerator ids;

    /**
     * @param model name of the served model
     * @param ids makes the ids of spans; thread-safe
     */
    public RequestTracing(SpanExporter exporter, String model, InstantSource time, RandomGenerator ids) {
        this.exporter = exporter;
        this.model = model;
        this.time = time;
        this.ids = ids;
    }

    /**
     * Begins the span of an HTTP request, which ends with the exchange. A client that does not record its trace gets
     * none.
     *
     * @param operation what the request asks for, by OpenTelemetry's name
     */
    public void begin(Exchange exchange, String operation) {
        Optional<TraceContext> client = TraceContext.of(exchange.header("traceparent"), exchange.header("tracestate"));
        if (client.isPresent() && !client.get().sampled()) {
            return;
        }
        String traceId = client.map(TraceContext::traceId).orElseGet(() -> id(TRACE_ID_BYTES));
        String state = client.map(TraceContext::state).orElse("");
        TraceParent parent =
                new TraceParent(traceId, client.map(TraceContext::spanId).orElse(""), state, operation);
        String id = id(SPAN_ID_BYTES);
        long begin = now();
        exchange.trace(new TraceParent(traceId, id, state, operation));
        exchange.onEnd(() -> exporter.add(http(parent, id, begin, exchange)));
    }

    private Span http(TraceParent parent, String id, long begin, Exchange exchange) {
        int status = exchange.status();
        Map<String, Object> attributes = new LinkedHashMap<>();
        attributes.put("http.request.method", exchange.method());
        attributes.put("http.route", exchange.path()); // the paths of traced requests have no parameters
        attributes.put("url.path", exchange.path());
        attributes.put("http.response.status_code", (long) status);
        attributes.put("tandem.request.id", exchange.requestId());
        boolean failed = status >= SERVER_ERROR;
        if (failed) {
            attributes.put("error.type", Integer.toString(status));
        }
        return new Span(
                parent,
                id,
                exchange.method() + " " + exchange.path(),
                Span.Kind.SERVER,
                begin,
                now(),
                attributes,
                List.of(),
                failed ? Optional.of("answered " + status) : Optional.empty());
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        request.trace().ifPresent(parent -> {
            long end = now();
            long arrived = end - usage.total();
            Map<String, Object> attributes = requested(request, parent);
            attributes.put("gen_ai.response.finish_reasons", List.of(reason.wire()));
            attributes.put("gen_ai.usage.input_tokens", (long) usage.promptTokens());
            attributes.put("gen_ai.usage.output_tokens", (long) usage.completionTokens());
            attributes.put("gen_ai.usage.cache_read.input_tokens", (long) usage.cachedTokens());
            attributes.put("tandem.host_decode_tokens", (long) usage.hostTokens());
            attributes.put("tandem.preemptions", (long) usage.preemptions());
            String id = id(SPAN_ID_BYTES);
            exporter.add(new Span(
                    parent,
                    id,
                    parent.operation() + " " + model,
                    Span.Kind.INTERNAL,
                    arrived,
                    end,
                    attributes,
                    events(usage.moves(), arrived),
                    Optional.empty()));
            phases(new TraceParent(parent.traceId(), id, parent.state(), parent.operation()), arrived, end, usage);
        });
    }

    private static List<Span.Event> events(List<KvMove> moves, long arrived) {
        List<Span.Event> events = new ArrayList<>();
        for (KvMove move : moves) {
            String tier =
                    move.to().map(to -> to.name().toLowerCase(Locale.ROOT)).orElse("none");
            events.add(
                    new Span.Event("tandem.kv.moved", arrived + move.sinceArrival(), Map.of("tandem.kv.tier", tier)));
        }
        return events;
    }

    /** Adds a span for each phase that the request has reached. */
    private void phases(TraceParent parent, long arrived, long end, Usage usage) {
        long started = arrived + usage.queued();
        phase(parent, "queue", arrived, started);
        if (usage.completionTokens() == 0) {
            if (started < end) {
                phase(parent, "prefill", started, end);
            }
            return;
        }
        long first = arrived + usage.timeToFirstToken();
        phase(parent, "prefill", started, first);
        phase(parent, "decode", first, end);
    }

    private void phase(TraceParent parent, String name, long begin, long end) {
        exporter.add(new Span(
                parent,
                id(SPAN_ID_BYTES),
                name,
                Span.Kind.INTERNAL,
                begin,
                end,
                Map.of(),
                List.of(),
                Optional.empty()));
    }

    /** The engine does not say how long a failed request has run, so its span is a point in time with the reason. */
    @Override
    public void failed(Request request, String message) {
        request.trace().ifPresent(parent -> {
            Map<String, Object> attributes = requested(request, parent);
            attributes.put("error.type", "engine");
            long end = now();
            exporter.add(new Span(
                    parent,
                    id(SPAN_ID_BYTES),
                    parent.operation() + " " + model,
                    Span.Kind.INTERNAL,
                    end,
                    end,
                    attributes,
                    List.of(),
                    Optional.of(message)));
        });
    }

    private Map<String, Object> requested(Request request, TraceParent parent) {
        SamplingParams sampling = request.sampling();
        Map<String, Object> attributes = new LinkedHashMap<>();
        attributes.put("gen_ai.operation.name", parent.operation());
        attributes.put("gen_ai.provider.name", "tandem");
        attributes.put("gen_ai.request.model", model);
        attributes.put("gen_ai.response.model", model);
        attributes.put("tandem.engine.request.id", request.id());
        attributes.put("gen_ai.request.temperature", sampling.temperature());
        attributes.put("gen_ai.request.top_p", sampling.topP());
        sampling.maxTokens().ifPresent(max -> attributes.put("gen_ai.request.max_tokens", (long) max));
        sampling.seed().ifPresent(seed -> attributes.put("gen_ai.request.seed", seed));
        return attributes;
    }

    private String id(int bytes) {
        byte[] id = new byte[bytes];
        ids.nextBytes(id);
        return HexFormat.of().formatHex(id);
    }

    private long now() {
        Instant instant = time.instant();
        return instant.getEpochSecond() * 1_000_000_000L + instant.getNano();
    }
}
