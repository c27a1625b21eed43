package dev.tandem.server.http;

import static org.assertj.core.api.Assertions.assertThat;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.embedded.EmbeddedChannel;
import io.netty.handler.codec.http.HttpServerCodec;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** One connection without a socket, with a clock that the test advances. */
class HttpConnectionTest {
    private static final HttpLimits LIMITS = new HttpLimits(
            1000,
            1000,
            1500,
            10,
            Duration.ofSeconds(10),
            Duration.ofSeconds(60),
            Duration.ofSeconds(75),
            Duration.ofSeconds(60));

    private final BodyBudget budget = new BodyBudget(LIMITS.maxBufferedBytes());
    private final List<String> served = new ArrayList<>();
    private Serving serving = exchange -> exchange.respond(200, "text/plain", bytes(exchange));
    private EmbeddedChannel channel;
    private long nanos;
    private final List<String> logged = new ArrayList<>();
    private final AccessLog log = AccessLog.to(() -> nanos, logged::add);

    private static byte[] bytes(Exchange exchange) {
        try {
            return exchange.body().readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private interface Serving {
        void serve(Exchange exchange) throws InterruptedException;
    }

    @BeforeEach
    void open() {
        Router router = new Router() {
            @Override
            public Decision decide(RequestHead head) {
                return new Decision.OnEventLoop();
            }

            @Override
            public void serve(Exchange exchange) throws InterruptedException {
                served.add(exchange.path());
                serving.serve(exchange);
            }
        };
        HttpConnection connection = new HttpConnection(
                LIMITS,
                new OriginPolicy(true, List.of(), List.of()),
                router,
                (status, message) -> message.getBytes(StandardCharsets.UTF_8),
                budget,
                log);
        channel = new EmbeddedChannel();
        channel.freezeTime();
        channel.pipeline().addLast(connection.new FirstByte(), new HttpServerCodec(), connection);
        channel.pipeline().fireChannelActive();
    }

    @AfterEach
    void close() {
        channel.finishAndReleaseAll();
        assertThat(budget.used()).isZero();
    }

    // --- access log

    @Test
    void writesOneLinePerRequestWhenItEnds() {
        serving = exchange -> {
            nanos += 1_234_567_890;
            exchange.tokens(12, 34);
            exchange.respond(429, "text/plain", new byte[0]);
        };
        send("POST /v1/completions?key=secret HTTP/1.1\r\nX-Request-Id: abc\r\nContent-Length: 6\r\n\r\nprompt");
        assertThat(logged)
                .containsExactly("POST /v1/completions 429 1234ms prompt_tokens=12 output_tokens=34 client=- id=abc");
    }

    @Test
    void textFromAClientCannotStartALogLine() {
        send("GET /a\u009b2K\u2028200 HTTP/1.1\r\n\r\nNONSENSE\r\n\r\n");
        assertThat(logged)
                .hasSize(2)
                .allSatisfy(line -> assertThat(line)
                        .matches("\\S+ \\S+ \\d{3} \\d+ms prompt_tokens=0 output_tokens=0 client=- id=[0-9a-f]{32}")
                        .matches("\\P{Cntrl}*"));
    }

    @Test
    void aClientThatDisconnectsBeforeItsAnswerIsLoggedWith499() {
        serving = exchange -> {
            exchange.beginEvents();
            exchange.tokens(3, 1);
            throw new ClientGoneException();
        };
        send("POST /v1/completions HTTP/1.1\r\nX-Request-Id: abc\r\nContent-Length: 0\r\n\r\n");
        assertThat(logged)
                .containsExactly("POST /v1/completions 499 0ms prompt_tokens=3 output_tokens=1 client=- id=abc");
    }

    private void send(String text) {
        channel.writeInbound(Unpooled.copiedBuffer(text, StandardCharsets.UTF_8));
    }

    private void pass(Duration time) {
        channel.advanceTimeBy(time.toMillis(), TimeUnit.MILLISECONDS);
        channel.runScheduledPendingTasks();
        channel.runPendingTasks();
    }

    private String written() {
        StringBuilder text = new StringBuilder();
        for (ByteBuf buffer = channel.readOutbound(); buffer != null; buffer = channel.readOutbound()) {
            text.append(buffer.toString(StandardCharsets.UTF_8));
            buffer.release();
        }
        return text.toString();
    }

    private static String post(String path, String body) {
        return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + body.length() + "\r\n\r\n" + body;
    }

    @Test
    void closesWhenNoRequestArrives() {
        pass(Duration.ofSeconds(74));
        assertThat(channel.isOpen()).isTrue();
        pass(Duration.ofSeconds(2));
        assertThat(channel.isOpen()).isFalse();
        assertThat(written()).isEmpty();
    }

    @Test
    void eachAnswerRestartsTheIdleTimeout() {
        for (int i = 0; i < 3; i++) {
            pass(Duration.ofSeconds(70));
            send(post("/a", "x"));
            assertThat(written()).startsWith("HTTP/1.1 200");
        }
        pass(Duration.ofSeconds(76));
        assertThat(channel.isOpen()).isFalse();
    }

    @Test
    void slowHeadersAreAnsweredWith408() {
        for (int i = 0; i < 9; i++) {
            send(i == 0 ? "GET /a HTTP/1.1\r\nHost: localhost\r\n" : "X-More: 1\r\n");
            pass(Duration.ofSeconds(1));
            assertThat(channel.isOpen()).isTrue();
        }
        pass(Duration.ofSeconds(2));
        assertThat(written())
                .startsWith("HTTP/1.1 408")
                .contains("the headers of the request did not arrive within 10000 ms");
        assertThat(channel.isOpen()).isFalse();
        assertThat(served).isEmpty();
    }

    @Test
    void slowBodiesAreAnsweredWith408AndTheirMemoryIsFreed() {
        send(post("/a", "x".repeat(900)).substring(0, 200));
        for (int i = 0; i < 59; i++) {
            send("x");
            pass(Duration.ofSeconds(1));
        }
        assertThat(channel.isOpen()).isTrue();
        assertThat(budget.used()).isPositive();
        pass(Duration.ofSeconds(2));
        assertThat(written()).startsWith("HTTP/1.1 408").contains("the body of the request");
        assertThat(channel.isOpen()).isFalse();
        assertThat(budget.used()).isZero();
    }

    @Test
    void memoryIsTakenByBytesReceivedNotByContentLength() {
        send(post("/a", "x".repeat(1000)).split("x")[0]);
        assertThat(budget.used()).isZero();
        send("x".repeat(100));
        assertThat(budget.used()).isEqualTo(100);
        send("x".repeat(900));
        assertThat(written()).startsWith("HTTP/1.1 200");
        assertThat(budget.used()).isZero();
    }

    @Test
    void aBodyIsAssembledFromItsPieces() {
        StringBuilder body = new StringBuilder();
        for (int i = 0; body.length() < 990; i++) {
            body.append(i).append(' ');
        }
        for (char c : post("/a", body.toString()).toCharArray()) {
            send(String.valueOf(c));
        }
        assertThat(written()).endsWith(body);
    }

    @Test
    void aDisconnectDuringABodyFreesItsMemory() {
        send(post("/a", "x".repeat(1000)).substring(0, 500));
        assertThat(budget.used()).isPositive();
        channel.close();
        assertThat(budget.used()).isZero();
    }

    @Test
    void aHandlerThatFailsBeforeItsAnswerIsAnsweredWith500() {
        serving = exchange -> {
            throw new IllegalStateException("a defect");
        };
        send(post("/a", "x"));
        assertThat(written()).startsWith("HTTP/1.1 500").contains("the server failed");
        assertThat(channel.isOpen()).isTrue();
    }

    @Test
    void aHandlerThatFailsDuringAStreamEndsItWithTheError() {
        serving = exchange -> {
            exchange.beginEvents();
            exchange.event("one");
            throw new StackOverflowError();
        };
        send(post("/a", "x"));
        assertThat(written())
                .startsWith("HTTP/1.1 200")
                .containsSubsequence("data: one", "data: the server failed", "data: [DONE]", "\r\n0\r\n\r\n");
    }

    @Test
    void aHandlerThatDoesNotAnswerIsAnsweredWith500() {
        serving = exchange -> {};
        send(post("/a", "x"));
        assertThat(written()).startsWith("HTTP/1.1 500");
    }

    @Test
    void requestsAfterAnAnswerThatClosesTheConnectionAreNotServed() {
        send(post("/a", "x") + post("/b", "x").replace("Host:", "Connection: close\r\nHost:") + post("/c", "x"));
        assertThat(served).containsExactly("/a", "/b");
        assertThat(channel.isOpen()).isFalse();
    }

    @Test
    void theBodyOfARefusedRequestIsDroppedAndTheNextRequestIsServed() {
        send(post("/a", "x".repeat(900)).replace("localhost", "evil.example") + post("/b", "x"));
        assertThat(served).containsExactly("/b");
        assertThat(written()).containsSubsequence("HTTP/1.1 403", "HTTP/1.1 200");
    }

    @Test
    void aMalformedChunkIsRefused() {
        send("POST /a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nxx\r\n");
        assertThat(written()).startsWith("HTTP/1.1 400");
        assertThat(served).isEmpty();
    }
}
