package dev.tandem.server;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.OriginPolicy;
import dev.tandem.server.http.Tls;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiKeys;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.server.page.Page;
import dev.tandem.server.trace.RequestTracing;
import dev.tandem.server.trace.SpanExporter;
import dev.tandem.text.ChatTemplate;
import java.io.IOException;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/** The real server and engine on a free port, with a fake executor and tokenizer that the test can block. */
final class RunningServer implements AutoCloseable {
    static final int CONTEXT = 512;
    static final int QUEUE = 8;
    static final HttpLimits LIMITS = new HttpLimits(
            64 << 10,
            8 << 10,
            1 << 20,
            64,
            Duration.ofSeconds(60),
            Duration.ofSeconds(60),
            Duration.ofSeconds(60),
            Duration.ofSeconds(60));
    static final OriginPolicy ORIGINS = new OriginPolicy(true, List.of(), List.of("https://chat.example.org"));
    /** A chat template that prints its variables, and the arguments of tool calls as an object. */
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}"
            + "{% for c in m.tool_calls %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }};{% endfor "
            + "%}{% endfor %}"
            + "\n{% endfor %}{% if tools %}{{ tools | length }} tools{% endif %}";

    final FakeTokenizer tokenizer = new FakeTokenizer();
    final FakeGrammars grammars = new FakeGrammars();
    final ContentExecutor contents = new ContentExecutor(2, 1024, 0, 256, CONTEXT, Readiness.allEarly());
    final GatedExecutor executor = new GatedExecutor(contents);
    final Engine engine;
    private final TandemServer server;

    RunningServer() {
        this(LIMITS, ORIGINS, Optional.empty());
    }

    RunningServer(HttpLimits limits, OriginPolicy origins, Optional<String> key) {
        this(limits, origins, key, AccessLog.OFF);
    }

    RunningServer(HttpLimits limits, OriginPolicy origins, Optional<String> key, AccessLog log) {
        this(limits, origins, Optional.empty(), ApiKeys.of(key.stream().toList()), log);
    }

    RunningServer(HttpLimits limits, OriginPolicy origins, Optional<Tls> tls, ApiKeys keys, AccessLog log) {
        this(
                limits,
                origins,
                tls,
                keys,
                log,
                PrefixCacheOptions.OFF,
                CacheSaltFrom.NONE,
                Optional.of(Page.load()),
                Optional.empty());
    }

    /** A server with a prefix cache; {@link ContentExecutor#prompt} must name each prompt. */
    RunningServer(CacheSaltFrom salts) {
        this(
                LIMITS,
                ORIGINS,
                Optional.empty(),
                ApiKeys.NONE,
                AccessLog.OFF,
                PrefixCacheOptions.on(1),
                salts,
                Optional.of(Page.load()),
                Optional.empty());
    }

    /** A server that was started with --no-ui. */
    static RunningServer withoutPage() {
        return new RunningServer(
                LIMITS,
                ORIGINS,
                Optional.empty(),
                ApiKeys.NONE,
                AccessLog.OFF,
                PrefixCacheOptions.OFF,
                CacheSaltFrom.NONE,
                Optional.empty(),
                Optional.empty());
    }

    /** A server whose requests are traced. */
    static RunningServer traced(SpanExporter exporter) {
        return new RunningServer(
                LIMITS,
                ORIGINS,
                Optional.empty(),
                ApiKeys.NONE,
                AccessLog.OFF,
                PrefixCacheOptions.OFF,
                CacheSaltFrom.NONE,
                Optional.empty(),
                Optional.of(new RequestTracing(exporter, "fake", InstantSource.system(), new SecureRandom())));
    }

    private RunningServer(
            HttpLimits limits,
            OriginPolicy origins,
            Optional<Tls> tls,
            ApiKeys keys,
            AccessLog log,
            PrefixCacheOptions prefixCache,
            CacheSaltFrom salts,
            Optional<Page> page,
            Optional<RequestTracing> tracing) {
        Budget budget = new Budget(256, 8, 256);
        ServerMetrics metrics = new ServerMetrics("fake");
        EngineHistory history = new EngineHistory(Clock.system(), "gpu-only");
        engine = new Engine(
                        new EngineConfig(budget, Set.of(), CONTEXT, QUEUE, 1).withPrefixCache(prefixCache),
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.RECOMPUTE)),
                        executor,
                        Clock.system(),
                        metrics.and(history).and(tracing.isPresent() ? tracing.get() : EngineListener.NONE))
                .start();
        server = new TandemServer("127.0.0.1", 0, limits, origins, tls, page, log);
        ServedModel model = new ServedModel(
                "fake",
                engine,
                tokenizer,
                Optional.of(new ChatTemplate(TEMPLATE, "", "")),
                ServedModel.SamplingDefaults.NEUTRAL,
                grammars,
                salts);
        server.serve(keys, model, new DecisionLog(16), metrics, history, tracing);
    }

    int port() {
        return server.port();
    }

    RawClient connect() throws IOException {
        return new RawClient(server.port());
    }

    /** Sends one request on a new connection. */
    RawClient.Answer post(String path, String json) throws IOException {
        try (RawClient client = connect()) {
            client.post(path, json);
            return client.read();
        }
    }

    RawClient.Answer get(String path) throws IOException {
        try (RawClient client = connect()) {
            client.send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
            return client.read();
        }
    }

    @Override
    public void close() {
        tokenizer.gate.get().countDown();
        executor.release();
        engine.close();
        server.close();
    }
}
