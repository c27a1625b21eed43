package dev.tandem.app;

import dev.tandem.bench.ideal.IdealFields;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.bench.load.http.Conversations;
import dev.tandem.bench.load.http.HttpLoad;
import dev.tandem.bench.load.http.OpenAiServer;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.executor.ExecutorException;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.concurrent.Callable;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code bench serve}. */
@Command(
        name = "serve",
        mixinStandardHelpOptions = true,
        description = "Measures any server with OpenAI's API over HTTP, under an open loop: requests arrive at their"
                + " times, and latencies count from those times.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem bench serve --request-rate 2,4,8 --duration 60 --report load.html",
            "  tandem bench serve --workload osc --find-rate 'goodput>=0.9' --goodput ttft:500 tpot:50",
            "  tandem bench serve --num-prompts 200 --max-concurrency 16 --json"
        })
final class BenchServeCommand implements Callable<Integer> {
    private static final int REQUESTS_WITHOUT_RATE = 1000;

    @Mixin
    ServeLoadOptions options = new ServeLoadOptions();

    @Mixin
    LoadOptions load = new LoadOptions();

    @Mixin
    BenchReport report = new BenchReport();

    @CommandLine.Spec
    CommandLine.Model.CommandSpec spec;

    @Override
    public Integer call() throws IOException, InterruptedException {
        options.check();
        load.check();
        report.check();
        IntFunction<Conversations> conversations = options.conversations();
        Conversations first = conversations.apply(0); // not measured, so that no measured prompt is in a cache
        if (first.turns() > 1 && !load.isOpen()) {
            throw new ConfigurationException("--workload " + options.workloadName() + " has conversations of "
                    + first.turns() + " turns, which need requests that arrive at a rate; add --request-rate");
        }
        LoadWindow window = load.window(
                options.requests.or(() -> load.isOpen() ? Optional.empty() : Optional.of(REQUESTS_WITHOUT_RATE)),
                options.warmUp);
        boolean valid = true;
        try (OpenAiServer server = new OpenAiServer(options.target())) {
            HttpLoad client = new HttpLoad(
                    server, Clock.system(), server.knowsUsage(first.first().apply(0)), options.maxConcurrency);
            PrimitiveIterator.OfInt runs = IntStream.iterate(1, run -> run + 1).iterator();
            LoadOptions.Measured measured = load.run(
                    window,
                    options.seed,
                    System.err,
                    one -> measure(server.model(), client, one, conversations.apply(runs.nextInt())));
            for (Map<String, Object> result : measured.results()) {
                valid &= Boolean.TRUE.equals(result.get("valid"));
                report.write(result);
            }
            load.writeReports(measured, "tandem " + flags());
        }
        return valid ? 0 : ExitCode.FAILED;
    }

    /** The arguments without the values of headers, which may be keys. */
    private String flags() {
        return String.join(" ", spec.commandLine().getParseResult().originalArgs())
                .replaceAll("(--header[= ][^= ]+=)\\S+", "$1...");
    }

    private Map<String, Object> measure(String model, HttpLoad client, Load one, Conversations conversations) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("commit", BenchReport.commit());
        result.put("machine", MachineProbe.machine());
        result.put("flags", flags());
        result.put("time", BenchReport.now());
        result.put("base_url", options.baseUrl);
        result.put("endpoint", options.endpoint);
        result.put("model_id", model);
        result.put("workload", options.workloadName());
        if (options.maxConcurrency < Integer.MAX_VALUE) {
            result.put("max_concurrency", options.maxConcurrency);
        }
        HttpLoad.Run run = run(client, one, conversations);
        result.putAll(load.describe(one, run.result()));
        options.idealTokensPerSecond.ifPresent(ideal -> IdealFields.complete(result, ideal));
        result.put("num_prompts", run.requests().size());
        result.put("output_tokens_from", run.counted() == 0 ? "usage" : "pieces in " + run.counted() + " requests");
        result.put("valid", run.invalid().isEmpty());
        run.invalid().ifPresent(why -> System.err.println("note: this run is invalid: " + why));
        for (RequestTimes request : run.requests()) {
            if (request.outcome() instanceof RequestTimes.Outcome.Failed failed) {
                System.err.println("note: " + run.result().counts().failed() + " requests failed; the first with "
                        + failed.kind() + ": " + failed.message());
                break;
            }
        }
        return result;
    }

    private static HttpLoad.Run run(HttpLoad client, Load one, Conversations conversations) {
        try {
            return client.run(one, conversations, (arrived, running) -> {});
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ExecutorException("the load was interrupted");
        }
    }
}
