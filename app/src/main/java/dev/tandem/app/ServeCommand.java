package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.server.TandemServer;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ServedModel;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import tools.jackson.databind.ObjectMapper;

/** The OpenAI-compatible server. */
@Command(
        name = "serve",
        mixinStandardHelpOptions = true,
        description = {
            "Serves a model with an OpenAI-compatible API until it receives SIGTERM or Ctrl-C; then it finishes the",
            "requests under way and exits.",
            "",
            "  tandem serve",
            "  tandem serve my-model/ --port 9000 --api-key secret",
            "  tandem serve model.gguf --dtype bfloat16 --max-model-len 4096"
        })
final class ServeCommand implements Callable<Integer> {
    private static final int MAX_PORT = 65_535;

    @Mixin
    ModelOptions options;

    @Option(names = "--host", defaultValue = "127.0.0.1", description = "Address to listen on (${DEFAULT-VALUE}).")
    String host;

    @Option(
            names = "--port",
            defaultValue = "8000",
            description = "Port to listen on, 0 for a free one (${DEFAULT-VALUE}).")
    int port;

    @Option(
            names = "--api-key",
            defaultValue = "${env:TANDEM_API_KEY}",
            description =
                    "Asked of every request but /health and /metrics. Default: the variable TANDEM_API_KEY, else none.")
    String apiKey;

    @Option(names = "--served-model-name", description = "The name clients use. Default: the model's own.")
    Optional<String> servedModelName = Optional.empty();

    @Mixin
    HttpOptions http;

    @Option(
            names = "--shutdown-timeout",
            defaultValue = "30",
            description = "Seconds that requests under way get to finish after SIGTERM (${DEFAULT-VALUE}).")
    int shutdownTimeout;

    @Override
    public Integer call() throws InterruptedException {
        check();
        // first of all: a port that is taken is known before anything loads
        TandemServer server = new TandemServer(host, port, http.limits(), http.origins(isLoopback(host)));
        Optional<String> key = Optional.ofNullable(apiKey).filter(k -> !k.isBlank());
        ServerLifetime lifetime;
        String name;
        try {
            warningOfOpenPort(host, key).ifPresent(System.err::println);
            DeferredListener listener = new DeferredListener();
            EngineAssembly assembly = EngineAssembly.start(options, true, true, listener, System.err);
            try {
                name = name(assembly);
                serve(server, assembly, listener, name, key);
                lifetime = new ServerLifetime(
                        server, assembly.engine(), assembly, Duration.ofSeconds(shutdownTimeout), System.err);
                lifetime.handleSignals();
            } catch (RuntimeException | Error e) {
                assembly.close();
                throw e;
            }
        } catch (RuntimeException | Error e) {
            server.close();
            throw e;
        }
        announce(server, name, key);
        lifetime.awaitEnd();
        return ExitCode.FAILED;
    }

    private void check() {
        if (port < 0 || port > MAX_PORT) {
            throw new ConfigurationException(
                    "--port " + port + " must lie in [0, " + MAX_PORT + "]; 0 takes a free one");
        }
        http.check();
        if (shutdownTimeout < 0) {
            throw new ConfigurationException("--shutdown-timeout " + shutdownTimeout + " must be 0 or more seconds");
        }
        options.check();
        options.gpu.requireDriver();
    }

    private String name(EngineAssembly assembly) {
        String fixed = servedModelName.orElse(options.model.isEmpty() ? DefaultModel.NAME : "");
        return fixed.isEmpty() ? assembly.checkpoint().name() : fixed;
    }

    private static void serve(
            TandemServer server,
            EngineAssembly assembly,
            DeferredListener listener,
            String name,
            Optional<String> key) {
        ServerMetrics metrics = new ServerMetrics(name);
        listener.attach(metrics);
        assembly.cost().ifPresent(metrics::watch);
        assembly.guard().ifPresent(metrics::watch);
        ServedModel model = new ServedModel(
                name,
                assembly.engine(),
                assembly.tokenizer().orElseThrow(),
                assembly.template(),
                defaults(assembly.checkpoint().defaults()));
        server.serve(key, model, assembly.decisions(), metrics);
    }

    /** Whoever reaches the port may use the model, and see what others measure. */
    static Optional<String> warningOfOpenPort(String host, Optional<String> key) {
        return key.isPresent() || isLoopback(host)
                ? Optional.empty()
                : Optional.of("warning: --host " + host
                        + " lets every machine that reaches this one use the model without a key;"
                        + " set --api-key or the variable TANDEM_API_KEY, or listen on 127.0.0.1");
    }

    private static boolean isLoopback(String host) {
        try {
            return InetAddress.getByName(host).isLoopbackAddress();
        } catch (UnknownHostException e) {
            return false; // and nothing listens there
        }
    }

    private static ServedModel.SamplingDefaults defaults(GenerationDefaults d) {
        ServedModel.SamplingDefaults neutral = ServedModel.SamplingDefaults.NEUTRAL;
        return new ServedModel.SamplingDefaults(
                d.temperature().orElse(neutral.temperature()),
                d.topP().orElse(neutral.topP()),
                d.topK().orElse(neutral.topK()),
                d.repetitionPenalty().orElse(neutral.repetitionPenalty()));
    }

    private void announce(TandemServer server, String name, Optional<String> key) {
        System.out.println("serving " + name + " on " + address(host, server.port()) + "; try:");
        System.out.println();
        if (key.isPresent() && !key.get().equals(System.getenv("TANDEM_API_KEY"))) {
            System.out.println("export TANDEM_API_KEY=...  # the --api-key of this server");
        }
        // a server on all addresses is asked on one
        String reachable = host.equals("0.0.0.0") ? "127.0.0.1" : host.equals("::") ? "::1" : host;
        System.out.println("curl " + address(reachable, server.port())
                + "/v1/chat/completions -H 'Content-Type: application/json'"
                + (key.isPresent() ? " -H \"Authorization: Bearer $TANDEM_API_KEY\"" : "")
                + " -d '"
                + shellQuoted("{\"model\": " + jsonString(name)
                        + ", \"temperature\": 0, \"messages\": [{\"role\": \"user\","
                        + " \"content\": \"What is the capital of France?\"}]}")
                + "'");
        System.out.println();
        System.out.flush();
    }

    private static String address(String host, int port) {
        return "http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** For single quotes of the shell. */
    private static String shellQuoted(String text) {
        return text.replace("'", "'\\''");
    }

    private static String jsonString(String text) {
        return new ObjectMapper().writeValueAsString(text);
    }
}
