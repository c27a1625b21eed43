package dev.tandem.app;

import dev.tandem.app.config.KnownOptions;
import dev.tandem.app.config.Secret;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvEventSink;
import dev.tandem.engine.observe.EngineListener;
import dev.tandem.server.TandemServer;
import dev.tandem.server.Version;
import dev.tandem.server.http.AccessLog;
import dev.tandem.server.http.Tls;
import dev.tandem.server.kvevents.KvEventPublisher;
import dev.tandem.server.kvevents.KvEventsConfig;
import dev.tandem.server.metrics.EngineHistory;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ApiKeys;
import dev.tandem.server.openai.ServedModel;
import dev.tandem.server.page.Page;
import dev.tandem.server.trace.OtlpSettings;
import dev.tandem.server.trace.RequestTracing;
import dev.tandem.server.trace.SpanExporter;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.InstantSource;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import tools.jackson.databind.ObjectMapper;

/** Runs {@code serve}, the OpenAI-compatible server. */
@Command(
        name = "serve",
        mixinStandardHelpOptions = true,
        description = "Serves a model with an OpenAI-compatible API. SIGTERM or Ctrl-C ends it after the running"
                + " requests.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem serve                                   the default model, on 127.0.0.1:8000",
            "  tandem serve my-model/ --port 9000 --api-key secret",
            "  tandem serve my-model/ --host-kv 64GiB         more KV on the host for longer queues",
            "  tandem serve my-model/ --strategy gpu-only     without the CPU's help",
            "  tandem serve model.gguf --max-model-len 4096 --log-requests"
        })
final class ServeCommand implements Callable<Integer> {
    @Mixin
    ModelOptions options = new ModelOptions();

    @Mixin
    ServerOptions listen = new ServerOptions();

    @Mixin
    HttpOptions http = new HttpOptions();

    @Mixin
    TraceOptions traces = new TraceOptions();

    /** A server that answers requests; {@link #close} ends running ones with an error. */
    record Serving(
            TandemServer server,
            EngineAssembly assembly,
            Optional<SpanExporter> exporter,
            Optional<KvEventPublisher> kvEvents,
            String name,
            boolean needsKey,
            StartLog log)
            implements AutoCloseable {
        @Override
        public void close() {
            server.close();
            closeEngine();
        }

        /** Closes what the closed server has used; the last spans are of requests that ended with the engine. */
        void closeEngine() {
            assembly.close();
            exporter.ifPresent(SpanExporter::close);
            kvEvents.ifPresent(KvEventPublisher::close);
        }
    }

    @Override
    public Integer call() throws InterruptedException {
        Serving serving = start();
        EngineAssembly assembly = serving.assembly();
        ServerLifetime lifetime = new ServerLifetime(
                serving.server(),
                assembly.engine(),
                serving::closeEngine,
                Duration.ofSeconds(listen.shutdownTimeout),
                System.err);
        lifetime.handleSignals();
        announce(serving);
        lifetime.awaitEnd();
        return ExitCode.FAILED;
    }

    /** Checks the options, loads the model and serves it. */
    Serving start() {
        check();
        options.gpu.requireDriver();
        List<String> keys = listen.keys();
        Optional<KvEventsConfig> kvEvents = listen.kvEvents(options.memory);
        Optional<Tls> tls = http.tls();
        Optional<OtlpSettings> collector = traces.settings(System.getenv());
        Logging.level(listen.logLevel);
        AccessLog requests = listen.logRequests ? Logging.accessLog() : AccessLog.OFF;
        // listens first, so that a taken port is reported before the model is loaded
        TandemServer server = new TandemServer(
                listen.host,
                listen.port,
                http.limits(),
                http.origins(isLoopback(listen.host)),
                tls,
                listen.ui ? Optional.of(Page.load()) : Optional.empty(),
                requests);
        StartLog log = new StartLog(System.err, listen.logLevel == LogLevel.DEBUG, server::loading);
        Optional<KvEventPublisher> publisher = Optional.empty();
        try {
            publisher = kvEvents.map(
                    config -> new KvEventPublisher(config, Clock.system(), InstantSource.system()).start());
            warningOfOpenPort(listen.host, !keys.isEmpty()).ifPresent(System.err::println);
            DeferredListener listener = new DeferredListener();
            KvEventSink sink = publisher.<KvEventSink>map(p -> p).orElse(KvEventSink.NONE);
            EngineAssembly assembly = EngineAssembly.start(options, EngineAssembly.Use.SERVE, listener, sink, log);
            try {
                String name = listen.servedModelName
                        .filter(fixed -> !fixed.isEmpty())
                        .orElseGet(() -> assembly.name(options));
                collector.ifPresent(
                        settings -> log.row("traces", settings.endpoint().toString()));
                kvEvents.ifPresent(config -> log.row("KV events", config.endpoint()));
                Optional<SpanExporter> exporter = collector.map(settings -> new SpanExporter(settings, Version.text()));
                ServerMetrics metrics = new ServerMetrics(name);
                publisher.ifPresent(p -> metrics.watchKvEvents(p::published, p::dropped));
                exporter.ifPresent(spans -> metrics.watchTraces(spans::dropped));
                serve(server, assembly, listener, name, metrics, ApiKeys.of(keys), tracing(exporter, name));
                return new Serving(server, assembly, exporter, publisher, name, !keys.isEmpty(), log);
            } catch (RuntimeException | Error e) {
                assembly.close();
                throw e;
            }
        } catch (RuntimeException | Error e) {
            publisher.ifPresent(KvEventPublisher::close);
            server.close();
            throw e;
        }
    }

    /** @throws ConfigurationException for a value out of its range; needs no model and no GPU */
    void check() {
        listen.check();
        http.check();
        options.check();
        traces.settings(System.getenv());
    }

    /** A server without a page on a free port of the loopback address, for one client with this key. */
    static ServeCommand onLoopback(ModelOptions options, Secret key) {
        ServeCommand serve = new ServeCommand();
        serve.options = options;
        serve.listen.port = 0;
        serve.listen.ui = false;
        serve.listen.apiKey = Optional.of(key);
        return serve;
    }

    /** A parser for this command alone. */
    static CommandLine parser(ServeCommand command) {
        return new CommandLine(command).setCaseInsensitiveEnumValuesAllowed(true);
    }

    /** The options that a configuration file may set. */
    static KnownOptions known() {
        return new KnownOptions(parser(new ServeCommand()));
    }

    private static Optional<RequestTracing> tracing(Optional<SpanExporter> exporter, String name) {
        return exporter.map(spans -> new RequestTracing(spans, name, InstantSource.system(), new SecureRandom()));
    }

    private void serve(
            TandemServer server,
            EngineAssembly assembly,
            DeferredListener listener,
            String name,
            ServerMetrics metrics,
            ApiKeys keys,
            Optional<RequestTracing> tracing) {
        EngineHistory history =
                new EngineHistory(Clock.system(), options.strategy.chosen().flag());
        EngineListener all = metrics.and(history);
        all = assembly.ideal().isPresent() ? all.and(assembly.ideal().get()) : all;
        listener.attach(tracing.isPresent() ? all.and(tracing.get()) : all);
        assembly.watchedBy(metrics);
        assembly.guard().ifPresent(history::watch);
        assembly.ideal().ifPresent(ideal -> history.watchIdeal(ideal::ratio));
        ServedModel shown = assembly.served(name, listen.cacheSaltFrom);
        ServedModel model = listen.toolCallParser.map(shown::withCalls).orElse(shown);
        server.serve(keys, model, assembly.decisions(), metrics, history, tracing);
    }

    /** Warns when other machines can use the model and read the metrics without a key. */
    static Optional<String> warningOfOpenPort(String host, boolean needsKey) {
        return needsKey || isLoopback(host)
                ? Optional.empty()
                : Optional.of("warning: Every machine that reaches this one can use the model without a key, because"
                        + " of --host " + host + ". Set --api-key, --api-key-file or the variable"
                        + " TANDEM_API_KEY, or listen on"
                        + " 127.0.0.1.");
    }

    private static boolean isLoopback(String host) {
        try {
            return InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            return false; // an unknown host is no loopback address; listening on it fails
        }
    }

    private void announce(Serving serving) {
        int port = serving.server().port();
        serving.log().row("address", address(listen.host, port) + " serves " + serving.name());
        System.out.print(serving.log().summary());
        System.out.println();
        if (listen.ui) {
            System.out.println("Open " + address(reachable(listen.host), port) + "/ in a browser, or try it here:");
        } else {
            System.out.println("Try it:");
        }
        if (serving.needsKey() && !listen.hasKeyOfEnvironment()) {
            System.out.println("export TANDEM_API_KEY=...  # a key of this server");
        }
        boolean chats = serving.assembly().template().isPresent();
        String question = chats
                ? "\"messages\": [{\"role\": \"user\", \"content\": \"What is the capital of France?\"}]"
                : "\"prompt\": \"The capital of France is\"";
        System.out.println("curl " + address(reachable(listen.host), port)
                + (chats ? "/v1/chat/completions" : "/v1/completions") + " -H 'Content-Type: application/json'"
                + (serving.needsKey() ? " -H \"Authorization: Bearer $TANDEM_API_KEY\"" : "")
                + http.curlCertificate()
                        .map(file -> " --cacert '" + shellQuoted(file) + "'")
                        .orElse("")
                + " -d '"
                + shellQuoted("{\"model\": " + jsonString(serving.name()) + ", \"temperature\": 0, " + question + "}")
                + "'");
        System.out.println();
        System.out.flush();
    }

    /** A server on all addresses is reached at the loopback address. */
    private static String reachable(String host) {
        return host.equals("0.0.0.0") ? "127.0.0.1" : host.equals("::") ? "::1" : host;
    }

    private String address(String host, int port) {
        return (http.curlCertificate().isPresent() ? "https://" : "http://")
                + (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** Escapes text for single quotes of the shell. */
    private static String shellQuoted(String text) {
        return text.replace("'", "'\\''");
    }

    private static String jsonString(String text) {
        return new ObjectMapper().writeValueAsString(text);
    }
}
