package dev.tandem.app.chat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/**
 * One answer, as a stream of server-sent events.
 *
 * <p>Owned by: the thread that reads it; {@link #stop} may be called by any thread.
 */
public final class Answer {
    /** How an answer ended. */
    public sealed interface End {
        /**
         * The whole answer was read.
         *
         * @param tokens of the answer; 0 where the server does not say
         */
        record Complete(int tokens) implements End {}

        /** {@link Answer#stop} was called. */
        record Stopped() implements End {}

        /**
         * No answer, or part of one.
         *
         * @param message what went wrong, with the remedy where the server says one
         */
        record Failed(String message) implements End {}
    }

    /** Receives the parts of an answer. */
    public interface Reader {
        void reasoning(String text);

        void text(String text);

        /** The request is sent. */
        void sent();

        /** The model is still being loaded: a line that says how far. */
        void loading(String line);
    }

    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DATA = "data:";

    private final String baseUrl;
    private final Supplier<CompletableFuture<HttpResponse<InputStream>>> request;
    private final Duration loadingPause;
    private final CountDownLatch stop = new CountDownLatch(1);
    private volatile @Nullable CompletableFuture<HttpResponse<InputStream>> response;
    private volatile @Nullable InputStream body;

    /**
     * @param loadingPause between tries while the server loads its model
     * @param request sends the request, when reading begins and after each such pause
     */
    Answer(String baseUrl, Duration loadingPause, Supplier<CompletableFuture<HttpResponse<InputStream>>> request) {
        this.baseUrl = baseUrl;
        this.loadingPause = loadingPause;
        this.request = request;
    }

    /** Ends the answer and closes its connection, which cancels the request on the server. */
    public void stop() {
        stop.countDown();
        CompletableFuture<HttpResponse<InputStream>> sent = response;
        if (sent != null) {
            sent.cancel(true);
        }
        close(body);
    }

    private static void close(@Nullable InputStream stream) {
        if (stream != null) {
            try {
                stream.close();
            } catch (IOException e) {
                // nobody reads it any more
            }
        }
    }

    private boolean stopped() {
        return stop.getCount() == 0;
    }

    /** Sends the request, again while the server loads its model, and reads until the end. */
    public End read(Reader reader) throws InterruptedException {
        LoadingWait wait = new LoadingWait(loadingPause, reader::loading);
        while (true) {
            Optional<End> end = tryOnce(reader, wait);
            if (end.isPresent()) {
                return end.get();
            }
        }
    }

    /** Empty when the model was still being loaded. */
    private Optional<End> tryOnce(Reader reader, LoadingWait wait) throws InterruptedException {
        if (stopped()) {
            return Optional.of(new End.Stopped());
        }
        reader.sent();
        CompletableFuture<HttpResponse<InputStream>> sent = request.get();
        response = sent;
        if (stopped()) { // before there was a response to cancel
            sent.cancel(true);
        }
        try {
            HttpResponse<InputStream> answered = sent.get();
            body = answered.body();
            try (InputStream in = answered.body()) {
                if (stopped()) { // before the body was there to be closed
                    return Optional.of(new End.Stopped());
                }
                if (answered.statusCode() == 200) {
                    return Optional.of(events(in, reader));
                }
                String refusal = new String(in.readAllBytes(), StandardCharsets.UTF_8);
                return wait.waited(answered.statusCode(), refusal, stop)
                        ? Optional.empty()
                        : Optional.of(new End.Failed(refusal(answered.statusCode(), refusal)));
            }
        } catch (CancellationException e) {
            return Optional.of(new End.Stopped());
        } catch (ExecutionException e) {
            return Optional.of(stopped() ? new End.Stopped() : new End.Failed(noAnswer(e.getCause())));
        } catch (IOException e) {
            return Optional.of(stopped() ? new End.Stopped() : new End.Failed(noAnswer(e)));
        }
    }

    private String noAnswer(@Nullable Throwable cause) {
        return "the server at " + baseUrl + " does not answer ("
                + (cause == null ? "unknown" : cause.getClass().getSimpleName()) + "); see its log, then try again";
    }

    /** The message of an error; the server's own where there is one. */
    public static String refusal(int status, String body) {
        try {
            String message = JSON.readTree(body).path("error").path("message").asString("");
            return message.isEmpty() ? "the server answered " + status : message;
        } catch (JacksonException e) {
            return "the server answered " + status;
        }
    }

    private End events(InputStream in, Reader reader) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        int tokens = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (!line.startsWith(DATA)) {
                continue;
            }
            String data = line.substring(DATA.length()).strip();
            if (data.equals("[DONE]")) {
                return new End.Complete(tokens);
            }
            JsonNode event;
            try {
                event = JSON.readTree(data);
            } catch (JacksonException e) {
                return new End.Failed("the server at " + baseUrl + " sent an event that is no JSON; is it a server with"
                        + " OpenAI's API?");
            }
            if (event.has("error")) {
                return new End.Failed(event.path("error").path("message").asString("the server reports an error"));
            }
            tokens = event.path("usage").path("completion_tokens").asInt(tokens);
            JsonNode delta = event.path("choices").path(0).path("delta");
            part(delta, "reasoning_content", reader::reasoning);
            part(delta, "content", reader::text);
        }
        return stopped() ? new End.Stopped() : new End.Failed(noAnswer(new IOException()));
    }

    private static void part(JsonNode delta, String name, Consumer<String> to) {
        String text = delta.path(name).asString("");
        if (!text.isEmpty()) {
            to.accept(text);
        }
    }
}
