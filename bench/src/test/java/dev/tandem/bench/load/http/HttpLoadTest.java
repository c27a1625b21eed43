package dev.tandem.bench.load.http;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.GoodputTargets;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.LoadWindow;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RequestTimes.Outcome;
import dev.tandem.bench.load.http.Prompts.Lengths;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The load generator against a server that makes mistakes. */
@Timeout(60)
class HttpLoadTest {
    private static final Lengths LENGTHS = new Lengths(7, 3);
    private static final int UNLIMITED = Integer.MAX_VALUE;

    /** What the server does wrong with every third request, and what the failure is called. */
    enum Fault {
        HTTP_ERROR("HTTP 503", "overloaded"),
        CUT_STREAM("cut stream", ""),
        NO_FINISH_REASON("cut stream", "without a finish reason"),
        ERROR_EVENT("error in the stream", "out of memory"),
        BAD_EVENT("bad event", "{oops"),
        NO_STREAM("no event stream", "hello");

        private final String kind;
        private final String message;

        Fault(String kind, String message) {
            this.kind = kind;
            this.message = message;
        }
    }

    private static OpenAiServer.Target target(String url, String path) {
        return target(url, path, Duration.ofSeconds(50));
    }

    private static OpenAiServer.Target target(String url, String path, Duration timeout) {
        return new OpenAiServer.Target(
                url, path, Map.of("Authorization", "Bearer k"), "m", true, Map.of("top_k", 4), timeout);
    }

    private static Load load(Arrivals arrivals, int requests, Duration drain) {
        return new Load(arrivals, new LoadWindow.Requests(requests, drain), GoodputTargets.NONE, 1);
    }

    private static HttpLoad.Run run(FakeServer fake, String path, Load load, int maxConcurrency)
            throws InterruptedException {
        try (OpenAiServer server = new OpenAiServer(target(fake.url(), path))) {
            return new HttpLoad(server, Clock.system(), true, maxConcurrency)
                    .run(
                            load,
                            Conversations.ofOneTurn(Prompts.words(index -> LENGTHS, 0, 0)),
                            (arrived, running) -> {});
        }
    }

    @ParameterizedTest
    @EnumSource
    void aFailedRequestIsCountedUnderItsName(Fault fault) throws InterruptedException {
        AtomicInteger number = new AtomicInteger();
        try (FakeServer fake = new FakeServer((call, out) -> {
            if (number.getAndIncrement() % 3 != 1) {
                FakeServer.stream(out, 7, "a", "b", "c");
                return true;
            }
            switch (fault) {
                case HTTP_ERROR -> FakeServer.plain(out, 503, "{\"error\":\"overloaded\"}");
                case CUT_STREAM -> {
                    FakeServer.begin(out);
                    FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
                    return false;
                }
                case NO_FINISH_REASON -> {
                    FakeServer.begin(out);
                    FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
                    FakeServer.end(out);
                }
                case ERROR_EVENT -> {
                    FakeServer.begin(out);
                    FakeServer.event(out, "{\"error\":{\"message\":\"out of memory\"}}");
                    FakeServer.end(out);
                }
                case BAD_EVENT -> {
                    FakeServer.begin(out);
                    FakeServer.event(out, "{oops");
                    FakeServer.end(out);
                }
                case NO_STREAM -> FakeServer.plain(out, 200, "{\"text\":\"hello\"}");
            }
            return true;
        })) {
            HttpLoad.Run run =
                    run(fake, "/v1/completions", load(new Arrivals.AtOnce(), 9, Duration.ofSeconds(50)), UNLIMITED);
            LoadResult result = run.result();
            assertThat(result.counts().completed()).isEqualTo(6);
            assertThat(result.counts().failed()).isEqualTo(3);
            assertThat(result.errors()).isEqualTo(Map.of(fault.kind, 3));
            assertThat(run.requests().stream()
                            .map(request -> request.outcome())
                            .filter(Outcome.Failed.class::isInstance)
                            .map(outcome -> ((Outcome.Failed) outcome).message()))
                    .hasSize(3)
                    .allSatisfy(message -> assertThat(message).contains(fault.message));
        }
    }

    @Test
    void aServerThatIsGoneIsAFailureOfEachRequest() throws IOException, InterruptedException {
        int port;
        try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = closed.getLocalPort();
        }
        try (OpenAiServer server = new OpenAiServer(target("http://127.0.0.1:" + port, "/v1/completions"))) {
            Load load = load(new Arrivals.AtOnce(), 4, Duration.ofSeconds(50));
            LoadResult result = new HttpLoad(server, Clock.system(), true, UNLIMITED)
                    .run(load, Conversations.ofOneTurn(Prompts.words(index -> LENGTHS, 0, 0)), (arrived, running) -> {})
                    .result();
            assertThat(result.errors()).isEqualTo(Map.of("no connection", 4));
            assertThatThrownBy(() -> server.knowsUsage(
                            Prompts.words(index -> LENGTHS, 0, 0).apply(0)))
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining("127.0.0.1:" + port)
                    .hasMessageContaining("--base-url");
        }
    }

    @Test
    void aRequestThatTheServerNeverAnswersIsUnfinished() throws InterruptedException {
        CountDownLatch never = new CountDownLatch(1);
        try (FakeServer fake = new FakeServer((call, out) -> {
            FakeServer.begin(out);
            FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
            never.await();
            return false;
        })) {
            HttpLoad.Run run =
                    run(fake, "/v1/completions", load(new Arrivals.AtOnce(), 2, Duration.ofMillis(500)), UNLIMITED);
            assertThat(run.result().counts().unfinished()).isEqualTo(2);
            assertThat(run.result().counts().failed()).isZero();
        }
    }

    /** How far an answer that never ends has come. */
    enum NeverEnds {
        NO_HEAD,
        NO_TOKEN,
        ONE_TOKEN
    }

    @ParameterizedTest
    @EnumSource
    void countedRequestsThatNeverEndFailOneAfterAnother(NeverEnds how) throws InterruptedException {
        CountDownLatch never = new CountDownLatch(1);
        try (FakeServer fake = new FakeServer((call, out) -> {
                    if (how != NeverEnds.NO_HEAD) {
                        FakeServer.begin(out);
                    }
                    if (how == NeverEnds.ONE_TOKEN) {
                        FakeServer.event(out, "{\"choices\":[{\"text\":\"a\"}]}");
                    }
                    never.await();
                    return false;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions", Duration.ofMillis(200)))) {
            HttpLoad.Run run = new HttpLoad(server, Clock.system(), true, 1)
                    .run(
                            load(new Arrivals.AtOnce(), 3, Duration.ofSeconds(50)),
                            Conversations.ofOneTurn(Prompts.words(index -> LENGTHS, 0, 0)),
                            (arrived, running) -> {});
            assertThat(run.result().counts().failed()).isEqualTo(3);
            assertThat(run.result().errors()).isEqualTo(Map.of("timeout", 3));
            assertThat(((Outcome.Failed) run.requests().getFirst().outcome()).message())
                    .isEqualTo("the answer did not end within 0.2 s; --request-timeout sets this limit");
        }
    }

    @Test
    void aFirstRequestThatIsNeverAnsweredIsAnError() throws InterruptedException {
        CountDownLatch never = new CountDownLatch(1);
        try (FakeServer fake = new FakeServer((call, out) -> {
                    never.await();
                    return false;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions", Duration.ofMillis(200)))) {
            assertThatThrownBy(() -> server.knowsUsage(
                            Prompts.words(index -> LENGTHS, 0, 0).apply(0)))
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining(fake.url())
                    .hasMessageContaining("--request-timeout");
        }
    }

    @Test
    void anIdleConnectionIsClosedBeforeAServerWouldCloseIt() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
                    FakeServer.stream(out, 7, "a");
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions"))) {
            server.knowsUsage(Prompts.words(index -> LENGTHS, 0, 0).apply(0));
            assertThat(fake.awaitClosedConnection(Duration.ofSeconds(20)))
                    .as("closed after 2 s, by a timer that may be late, and not after Java's own limit of 30 s")
                    .isTrue();
        }
    }

    @Test
    void usageReplacesTheCountOfPieces() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
            FakeServer.begin(out);
            FakeServer.event(out, "{\"choices\":[{\"text\":\"two tokens\"}]}");
            FakeServer.finish(out, 11, 2);
            return true;
        })) {
            HttpLoad.Run run =
                    run(fake, "/v1/completions", load(new Arrivals.AtOnce(), 3, Duration.ofSeconds(50)), UNLIMITED);
            assertThat(run.result().counts().outputTokens()).isEqualTo(6);
            assertThat(run.result().counts().inputTokens()).isEqualTo(33);
            assertThat(run.counted()).isZero();
        }
    }

    @Test
    void withoutUsagePiecesAreCountedAndTheResultSaysSo() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
            FakeServer.begin(out);
            FakeServer.event(out, "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}");
            FakeServer.event(out, "{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}");
            FakeServer.event(out, "{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}");
            FakeServer.event(out, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}");
            FakeServer.end(out);
            return true;
        })) {
            HttpLoad.Run run = run(
                    fake, "/v1/chat/completions", load(new Arrivals.AtOnce(), 2, Duration.ofSeconds(50)), UNLIMITED);
            assertThat(run.result().counts().outputTokens()).isEqualTo(4);
            assertThat(run.counted()).isEqualTo(2);
            assertThat(fake.calls().getFirst().body()).contains("\"messages\"").doesNotContain("\"prompt\"");
        }
    }

    @Test
    void waitingForATurnCountsFromTheIntendedArrival() throws InterruptedException {
        // the server answers the first request only when it has been told that the last one has arrived
        CountDownLatch arrived = new CountDownLatch(1);
        try (FakeServer fake = new FakeServer((call, out) -> {
                    arrived.await();
                    FakeServer.stream(out, 7, "a");
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions"))) {
            HttpLoad.Run run = new HttpLoad(server, Clock.system(), true, 1)
                    .run(
                            load(new Arrivals.Constant(50), 5, Duration.ofSeconds(50)),
                            Conversations.ofOneTurn(Prompts.tokens(index -> LENGTHS, 0, 0)),
                            (count, running) -> {
                                if (count == 5) {
                                    arrived.countDown();
                                }
                            });
            assertThat(run.result().counts().completed()).isEqualTo(5);
            assertThat(run.requests().getFirst().nanos(Metric.TTFT).orElseThrow())
                    .as("the first waited for the arrivals of four more, 20 ms apart")
                    .isGreaterThanOrEqualTo(80_000_000);
            assertThat(run.result().counts().maxConcurrent()).isEqualTo(1);
        }
    }

    @Test
    void requestsCarryTheirOptions() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
            FakeServer.stream(out, 7, "a");
            return true;
        })) {
            run(fake, "/v1/completions", load(new Arrivals.AtOnce(), 1, Duration.ofSeconds(50)), UNLIMITED);
            assertThat(fake.calls().getFirst().path()).isEqualTo("/v1/completions");
            assertThat(fake.calls().getFirst().body())
                    .contains("\"model\":\"m\"", "\"max_tokens\":3", "\"ignore_eos\":true", "\"top_k\":4")
                    .contains("\"stream\":true", "\"include_usage\":true");
        }
    }

    @Test
    void theModelIsDiscovered() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
                    FakeServer.plain(out, 200, "{\"data\":[{\"id\":\"the-model\"}]}");
                    return true;
                });
                OpenAiServer server = new OpenAiServer(new OpenAiServer.Target(
                        fake.url(), "/v1/completions", Map.of(), "", true, Map.of(), Duration.ofSeconds(50)))) {
            assertThat(server.model()).isEqualTo("the-model");
            assertThat(fake.calls()).extracting(FakeServer.Call::path).isEqualTo(List.of("/v1/models"));
        }
    }

    @Test
    void aServerWithoutStreamOptionsIsAskedWithoutThem() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
                    if (call.body().contains("stream_options")) {
                        FakeServer.plain(out, 400, "{\"error\":\"unknown field stream_options\"}");
                    } else {
                        FakeServer.stream(out, 7, "a");
                    }
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions"))) {
            assertThat(server.knowsUsage(Prompts.words(index -> LENGTHS, 0, 0).apply(0)))
                    .isFalse();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"/v1/completions", "/v1/chat/completions"})
    void aTurnRepeatsTheConversationSoFar(String path) throws InterruptedException {
        AtomicInteger number = new AtomicInteger();
        try (FakeServer fake = new FakeServer((call, out) -> {
                    FakeServer.begin(out);
                    String text = "answer" + number.getAndIncrement();
                    FakeServer.event(out, "{\"choices\":[{\"delta\":{\"content\":\"" + text + "\"}}]}");
                    FakeServer.finish(out, 7, 1);
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), path))) {
            Arrivals once = new Arrivals.Trace("one conversation", new long[] {0, Long.MAX_VALUE / 2}, 1);
            Conversations conversations = Prompts.conversations(new Lengths(4, 1), 2, 3, 0);
            HttpLoad.Run run = new HttpLoad(server, Clock.system(), true, UNLIMITED)
                    .run(load(once, 3, Duration.ofSeconds(50)), conversations, (c, r) -> {});
            assertThat(run.result().counts().completed()).isEqualTo(3);
            List<String> said =
                    fake.calls().stream().map(call -> said(call, path)).toList();
            assertThat(said.get(0).split(" "))
                    .as("what all share, and a question")
                    .hasSize(4);
            assertThat(said.get(1)).startsWith(said.get(0) + "answer0 ");
            assertThat(said.get(2)).startsWith(said.get(1) + "answer1 ");
            assertThat(said.get(2).substring(said.get(1).length()).split(" "))
                    .as("the answer and the third question")
                    .hasSize(3);
        }
    }

    /** A call's prompt; messages are joined as a completion's prompt is. */
    private static String said(FakeServer.Call call, String path) {
        JsonNode body = new ObjectMapper().readTree(call.body());
        if (path.equals("/v1/completions")) {
            return body.get("prompt").asString();
        }
        StringBuilder all = new StringBuilder();
        for (JsonNode message : body.get("messages")) {
            boolean question = message.get("role").asString().equals("user");
            all.append(question && !all.isEmpty() ? " " : "")
                    .append(message.get("content").asString());
        }
        return all.toString();
    }

    @Test
    void aConversationEndsWithARequestThatFails() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
                    FakeServer.plain(out, 503, "{\"error\":\"overloaded\"}");
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions"))) {
            Load twoConversations = load(new Arrivals.Constant(50), 2, Duration.ofSeconds(50));
            HttpLoad.Run run = new HttpLoad(server, Clock.system(), true, UNLIMITED)
                    .run(twoConversations, Prompts.conversations(LENGTHS, 0, 3, 0), (c, r) -> {});
            assertThat(run.result().counts().failed()).isEqualTo(2);
            assertThat(fake.calls()).hasSize(2);
        }
    }

    @Test
    void turnsArriveThoughTheNextConversationWouldBeTooLate() throws InterruptedException {
        try (FakeServer fake = new FakeServer((call, out) -> {
                    FakeServer.stream(out, 7, "a");
                    return true;
                });
                OpenAiServer server = new OpenAiServer(target(fake.url(), "/v1/completions"))) {
            Arrivals once = new Arrivals.Trace("one conversation", new long[] {0, Long.MAX_VALUE / 2}, 1);
            Duration none = Duration.ZERO;
            LoadWindow window = new LoadWindow.Timed(none, Duration.ofDays(1), none, Duration.ofSeconds(50));
            HttpLoad.Run run = new HttpLoad(server, Clock.system(), true, UNLIMITED)
                    .run(
                            new Load(once, window, GoodputTargets.NONE, 1),
                            Prompts.conversations(LENGTHS, 0, 3, 0),
                            (c, r) -> {});
            assertThat(run.result().counts().completed()).isEqualTo(3);
        }
    }
}
