package dev.tandem.bench.load.http;

import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Latencies;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.engine.clock.Clock;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Measures what the load generator adds to the time to first token: a server in this process holds each first token for
 * a fixed time and takes how long it really held it. The difference of both distributions is the client's, the loopback
 * connection and the server's reading of the request included.
 *
 * <p>Arguments: requests per second, seconds, tokens per request.
 */
final class ClientOverhead {
    private static final long HELD_MILLIS = 20;
    private static final int WARM_UP_SECONDS = 10;

    private ClientOverhead() {}

    public static void main(String[] args) throws InterruptedException {
        double rate = Double.parseDouble(args[0]);
        int seconds = Integer.parseInt(args[1]);
        int tokens = Integer.parseInt(args[2]);
        Clock clock = Clock.system();
        try (FakeServer fake = new FakeServer((call, out) -> {
                    long received = clock.nanos();
                    TimeUnit.MILLISECONDS.sleep(HELD_MILLIS);
                    FakeServer.begin(out);
                    long held = clock.nanos() - received;
                    FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
                    for (int i = 1; i < tokens; i++) {
                        TimeUnit.MILLISECONDS.sleep(HELD_MILLIS);
                        FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
                    }
                    // the client gets the time held as the length of the prompt, in ns, and subtracts it
                    FakeServer.finish(out, (int) held, tokens);
                    return true;
                });
                OpenAiServer server = new OpenAiServer(new OpenAiServer.Target(
                        fake.url(), "/v1/completions", Map.of(), "m", true, Map.of(), Duration.ofSeconds(60)))) {
            LoadWindow window = new LoadWindow.Timed(
                    Duration.ofSeconds(WARM_UP_SECONDS),
                    Duration.ofSeconds(seconds),
                    Duration.ZERO,
                    Duration.ofSeconds(10));
            Load load = new Load(new Arrivals.Poisson(rate), window, GoodputTargets.NONE, 1);
            HttpLoad.Run run = new HttpLoad(server, clock, true, Integer.MAX_VALUE)
                    .run(
                            load,
                            Conversations.ofOneTurn(Prompts.tokens(index -> new Prompts.Lengths(100, tokens), 0, 1)),
                            (arrived, running) -> {});
            LoadResult result = run.result();
            Latencies added = new Latencies();
            run.requests().stream()
                    .filter(request -> window.measures(request.arrival()) && request.isReported())
                    .forEach(request -> added.add(request.nanos(Metric.TTFT).orElseThrow() - request.promptTokens()));
            System.out.printf(
                    "requests %d, completed %d, added to TTFT: mean %.3f ms, p50 %.3f, p99 %.3f, max %.3f;"
                            + " send delay p99 %.3f ms; valid %s%n",
                    result.counts().arrived(),
                    result.counts().completed(),
                    added.mean(),
                    added.percentile(50),
                    added.percentile(99),
                    added.max(),
                    result.sendDelay().percentile(99),
                    run.invalid().isEmpty());
        }
    }
}
