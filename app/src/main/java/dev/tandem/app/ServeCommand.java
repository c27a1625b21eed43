package dev.tandem.app;

import dev.tandem.model.config.GenerationDefaults;
import dev.tandem.server.TandemServer;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.metrics.ServerMetrics;
import dev.tandem.server.openai.ServedModel;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

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
    private static final int MAX_HEADER_BYTES = 64 << 10;

    @Mixin
    ModelOptions options;

    @Option(names = "--host", defaultValue = "127.0.0.1", description = "Address to listen on (${DEFAULT-VALUE}).")
    String host;

    @Option(names = "--port", defaultValue = "8000", description = "Port to listen on, 0 for a free one (${DEFAULT-VALUE}).")
    int port;

    @Option(
            names = "--api-key",
            defaultValue = "${env:TANDEM_API_KEY}",
            description = "Asked of every request but /health. Default: the variable TANDEM_API_KEY, else none.")
    String apiKey;

    @Option(names = "--served-model-name", description = "The name clients use. Default: the model's own.")
    Optional<String> servedModelName = Optional.empty();

    @Option(
            names = "--max-body-size",
            defaultValue = "8MiB",
            converter = ModelOptions.ByteSizeConverter.class,
            description = "Larger request bodies are refused with 413 (${DEFAULT-VALUE}).")
    ByteSize maxBodySize;

    @Option(
            names = "--shutdown-timeout",
            defaultValue = "30",
            description = "Seconds that requests under way get to finish after SIGTERM (${DEFAULT-VALUE}).")
    int shutdownTimeout;

    @Override
    public Integer call() throws InterruptedException {
        String fixedName = servedModelName.orElse(options.model.isEmpty() ? DefaultModel.NAME : "");
        DeferredListener listener = new DeferredListener();
        EngineAssembly assembly = EngineAssembly.start(options, true, true, listener, System.err);
        String name = fixedName.isEmpty() ? assembly.checkpoint().name() : fixedName;
        ServerMetrics metrics = new ServerMetrics(name);
        listener.attach(metrics);
        ServedModel model = new ServedModel(
                name,
                assembly.engine(),
                assembly.tokenizer().orElseThrow(),
                assembly.template(),
                defaults(assembly.checkpoint().defaults()));
        HttpLimits limits = new HttpLimits((int) Math.min(Integer.MAX_VALUE, maxBodySize.bytes()), MAX_HEADER_BYTES);
        Optional<String> key = Optional.ofNullable(apiKey).filter(k -> !k.isBlank());
        TandemServer server;
        try {
            server = new TandemServer(host, port, limits, key, model, assembly.decisions(), metrics);
            assembly.cost().ifPresent(metrics::watch);
            assembly.guard().ifPresent(metrics::watch);
        } catch (RuntimeException e) {
            assembly.close();
            throw e;
        }
        announce(server, name, key);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(Thread.ofPlatform().name("tandem-shutdown").unstarted(() -> {
            shutDown(server, assembly);
            stopped.countDown();
            // a JVM that ends by a signal reports it as failure; this end is orderly
            Runtime.getRuntime().halt(0);
        }));
        stopped.await();
        return 0;
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
        String address = "http://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + server.port();
        System.out.println("serving " + name + " on " + address + "; try:");
        System.out.println();
        System.out.println("curl " + address + "/v1/chat/completions -H 'Content-Type: application/json'"
                + (key.isPresent() ? " -H 'Authorization: Bearer '\"$TANDEM_API_KEY\"" : "")
                + " -d '{\"model\": \"" + name + "\", \"temperature\": 0, \"messages\": [{\"role\": \"user\", \"content\":"
                + " \"What is the capital of France?\"}]}'");
        System.out.println();
        System.out.flush();
    }

    private void shutDown(TandemServer server, EngineAssembly assembly) {
        System.err.println("shutting down: finishing the requests under way, at most " + shutdownTimeout + " s");
        try {
            if (!server.drain(Duration.ofSeconds(shutdownTimeout))) {
                System.err.println("given up: some requests were still running after " + shutdownTimeout + " s");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        assembly.close();
        server.close();
    }
}
