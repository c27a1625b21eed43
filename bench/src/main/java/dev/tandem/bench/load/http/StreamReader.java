package dev.tandem.bench.load.http;

import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.clock.Clock;
import java.io.ByteArrayOutputStream;
import java.net.ConnectException;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * Reads a stream of server-sent events and records when each piece of the answer came. A piece's time is taken before
 * it is parsed.
 *
 * <p>Owned by: the HTTP client's threads, one after another; {@link #abandon} may be called from another thread, after
 * which nothing more is recorded.
 */
final class StreamReader implements HttpResponse.BodySubscriber<Void> {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private final RequestTimes times;
    private final Clock clock;
    private final long origin;
    private final CompletableFuture<Void> body = new CompletableFuture<>();
    private final ByteArrayOutputStream line = new ByteArrayOutputStream(256);
    private final boolean keepsAnswer;
    private final StringBuilder answer = new StringBuilder();
    private boolean finished;
    private boolean ended;

    /**
     * @param origin the clock's time at the start of the load
     * @param keepsAnswer whether a later turn repeats the answer
     */
    StreamReader(RequestTimes times, Clock clock, long origin, boolean keepsAnswer) {
        this.times = times;
        this.clock = clock;
        this.origin = origin;
        this.keepsAnswer = keepsAnswer;
    }

    private long now() {
        return clock.nanos() - origin;
    }

    @Override
    public CompletionStage<Void> getBody() {
        return body;
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public synchronized void onNext(List<ByteBuffer> buffers) {
        long now = now();
        for (ByteBuffer buffer : buffers) {
            while (buffer.hasRemaining()) {
                byte next = buffer.get();
                if (next == '\n') {
                    event(line.toString(StandardCharsets.UTF_8), now);
                    line.reset();
                } else if (next != '\r') {
                    line.write(next);
                }
            }
        }
    }

    @Override
    public synchronized void onError(Throwable error) {
        fail("cut stream", reason(error));
        body.complete(null);
    }

    @Override
    public synchronized void onComplete() {
        if (finished && !ended) { // a server may leave out the last event
            times.end(now());
            ended = true;
        }
        fail("cut stream", "the answer ended without a finish reason");
        body.complete(null);
    }

    /** Records a failure, unless the request has ended. */
    synchronized void fail(String kind, String message) {
        if (!ended) {
            times.fail(now(), kind, message);
            ended = true;
        }
    }

    /** Leaves the request as it is: unfinished unless it has ended. */
    synchronized void abandon() {
        ended = true;
    }

    /** The answer's text so far, without reasoning and calls of tools; empty unless it is kept. */
    synchronized String answer() {
        return answer.toString();
    }

    private void event(String text, long now) {
        if (ended || !text.startsWith("data:")) {
            return;
        }
        String data = text.substring("data:".length()).strip();
        if (data.equals("[DONE]")) {
            if (finished) {
                times.end(now);
                ended = true;
            }
            return;
        }
        try {
            read(MAPPER.readTree(data), now);
        } catch (JacksonException e) {
            fail("bad event", OpenAiServer.quote(data));
        }
    }

    private void read(JsonNode event, long now) {
        if (event.has("error")) {
            fail("error in the stream", OpenAiServer.quote(event.get("error").toString()));
            return;
        }
        JsonNode usage = event.path("usage");
        JsonNode choice = event.path("choices").path(0);
        if (hasText(choice)) {
            times.receive(now, 1);
            keep(choice);
        }
        finished |= choice.path("finish_reason").isString();
        if (usage.has("completion_tokens")) {
            times.report(
                    usage.path("prompt_tokens").asInt(times.promptTokens()),
                    usage.get("completion_tokens").asInt());
        }
    }

    private void keep(JsonNode choice) {
        if (keepsAnswer) {
            answer.append(choice.path("text").asString(""));
            answer.append(choice.path("delta").path("content").asString(""));
        }
    }

    /** Whether a choice has a token: text, reasoning or a tool call, or an empty text that does not only end it. */
    private static boolean hasText(JsonNode choice) {
        JsonNode delta = choice.path("delta");
        if (delta.isObject()) {
            return !delta.path("content").asString("").isEmpty()
                    || !delta.path("reasoning_content").asString("").isEmpty()
                    || !delta.path("reasoning").asString("").isEmpty()
                    || delta.path("tool_calls").size() > 0;
        }
        JsonNode text = choice.path("text");
        return text.isString()
                && (!text.asString().isEmpty() || !choice.path("finish_reason").isString());
    }

    /** An exception in words: its kind where it has no message. */
    static String reason(Throwable error) {
        String message = error.getMessage();
        if (message != null && !message.isBlank()) {
            return message;
        }
        return error instanceof ConnectException
                ? "the connection was refused"
                : error.getClass().getSimpleName().replace("Exception", "");
    }
}
