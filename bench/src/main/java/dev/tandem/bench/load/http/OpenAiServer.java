package dev.tandem.bench.load.http;

import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * A server with OpenAI's API: where it is, and how its requests look.
 *
 * <p>Owned by: any thread, immutable; {@link #close} by the thread that made it.
 */
public final class OpenAiServer implements AutoCloseable {
    private static final String CHAT = "/chat/completions";
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);
    private static final Duration SHORT_REQUEST_TIMEOUT = Duration.ofSeconds(60);
    private static final int QUOTED_CHARACTERS = 300;

    /**
     * Seconds after which an idle connection is closed, in place of Java's 30. Servers on uvicorn, as vLLM's, close it
     * after 5 s: a request sent at that moment is lost. A lower value opens connections anew at lower rates.
     */
    private static final int MAX_IDLE_SECONDS = 2;

    private static final String IDLE_LIMIT = "jdk.httpclient.keepalive.timeout";

    static {
        // the JDK has no setting per client; a user's own -D stays
        if (System.getProperty(IDLE_LIMIT) == null) {
            System.setProperty(IDLE_LIMIT, String.valueOf(MAX_IDLE_SECONDS));
        }
    }

    /**
     * What every request has.
     *
     * @param baseUrl as {@code http://127.0.0.1:8000}
     * @param path as {@code /v1/completions}; a path that ends with {@code /chat/completions} gets messages
     * @param headers of each request, the authorization included
     * @param model empty for the first model that the server lists
     * @param ignoreEos whether to ask that answers have exactly their max tokens
     * @param extraBody fields that are added to each request, and replace its own
     * @param timeout max time from sending a request to the end of its answer
     */
    public record Target(
            String baseUrl,
            String path,
            Map<String, String> headers,
            String model,
            boolean ignoreEos,
            Map<String, Object> extraBody,
            Duration timeout) {}

    private final Target target;
    private final String model;
    private final ObjectMapper mapper = new ObjectMapper();
    private final HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1) // an upgrade to HTTP/2 would be counted as latency
            .connectTimeout(CONNECT_TIMEOUT)
            .executor(Executors.newVirtualThreadPerTaskExecutor())
            .build();

    /**
     * A server; asks it for its models when the target names none.
     *
     * @throws ConfigurationException when no server answers or its address is not a URL
     */
    public OpenAiServer(Target target) throws InterruptedException {
        this.target = target;
        this.model = target.model().isEmpty() ? firstModel() : target.model();
    }

    /** The model of the requests. */
    public String model() {
        return model;
    }

    /**
     * Sends a request and waits for the end of its answer. The timeout of {@link HttpRequest} ends with the answer's
     * head, so that a stream which stops would be waited for without end.
     *
     * @param onTimeout called before the connection is closed, which the body's reader would take for a cut stream
     * @throws HttpTimeoutException when the answer has not ended within the target's timeout
     */
    <T> HttpResponse<T> send(
            HttpRequest request, HttpResponse.BodyHandler<T> body, Consumer<HttpTimeoutException> onTimeout)
            throws IOException, InterruptedException {
        CompletableFuture<HttpResponse<T>> answer = client.sendAsync(request, body);
        try {
            return answer.get(target.timeout().toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            HttpTimeoutException timeout = new HttpTimeoutException("the answer did not end within "
                    + target.timeout().toMillis() / 1e3 + " s; --request-timeout sets this limit");
            timeout.initCause(e);
            onTimeout.accept(timeout);
            throw timeout;
        } catch (ExecutionException e) {
            throw e.getCause() instanceof IOException cause ? cause : new IOException(e.getCause());
        } finally {
            answer.cancel(true); // closes the connection of an answer that has not ended
        }
    }

    /** A request of a prompt; with {@code usage} the server is asked to report numbers of tokens. */
    HttpRequest request(Prompt prompt, boolean usage) {
        ObjectNode body = mapper.createObjectNode();
        body.put("model", model);
        if (target.path().endsWith(CHAT)) {
            ArrayNode messages = body.putArray("messages");
            for (String text : texts(prompt)) {
                String role = messages.size() % 2 == 0 ? "user" : "assistant";
                messages.addObject().put("role", role).put("content", text);
            }
        } else {
            switch (prompt.content()) {
                case Prompt.Content.Text text -> body.put("prompt", text.text());
                case Prompt.Content.Messages said -> body.put("prompt", joined(said.texts()));
                case Prompt.Content.Tokens tokens -> {
                    ArrayNode ids = body.putArray("prompt");
                    for (int id : tokens.ids()) {
                        ids.add(id);
                    }
                }
            }
        }
        body.put("max_tokens", prompt.outputTokens()).put("temperature", 0).put("stream", true);
        if (target.ignoreEos()) {
            body.put("ignore_eos", true);
        }
        if (usage) {
            body.putObject("stream_options").put("include_usage", true);
        }
        target.extraBody().forEach(body::putPOJO);
        return builder(target.path())
                .header("Content-Type", "application/json")
                .header("Accept", "text/event-stream")
                .POST(HttpRequest.BodyPublishers.ofString(mapper.writeValueAsString(body)))
                .build();
    }

    /** A conversation as one text; an answer follows its question directly, as the server generated it. */
    private static String joined(List<String> texts) {
        StringBuilder all = new StringBuilder();
        for (int i = 0; i < texts.size(); i++) {
            all.append(i > 0 && i % 2 == 0 ? " " : "").append(texts.get(i));
        }
        return all.toString();
    }

    private List<String> texts(Prompt prompt) {
        return switch (prompt.content()) {
            case Prompt.Content.Text text -> List.of(text.text());
            case Prompt.Content.Messages said -> said.texts();
            case Prompt.Content.Tokens tokens ->
                throw new ConfigurationException(
                        "--endpoint " + target.path() + " takes messages, and the prompts are token ids; use text");
        };
    }

    private HttpRequest.Builder builder(String path) {
        String url = target.baseUrl().replaceFirst("/+$", "") + path;
        try {
            HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(url));
            target.headers().forEach(builder::header);
            return builder;
        } catch (IllegalArgumentException e) {
            throw new ConfigurationException(
                    "--base-url and --endpoint give '" + url + "', which is not a URL: " + e.getMessage(), e);
        }
    }

    private String firstModel() throws InterruptedException {
        String url = target.baseUrl() + "/v1/models";
        HttpResponse<String> response =
                send(builder("/v1/models").timeout(SHORT_REQUEST_TIMEOUT).build(), url);
        if (response.statusCode() != 200) {
            throw new ConfigurationException(url + " answers " + response.statusCode() + ": " + quote(response.body())
                    + "; name the model with --model, or set OPENAI_API_KEY if the server wants a key");
        }
        try {
            JsonNode first =
                    mapper.readTree(response.body()).path("data").path(0).path("id");
            if (first.isString()) {
                return first.asString();
            }
        } catch (JacksonException e) {
            throw new ConfigurationException(url + " answers with no JSON: " + quote(response.body()), e);
        }
        throw new ConfigurationException(url + " lists no model; name one with --model");
    }

    /**
     * Sends one request that is not measured, so that a wrong option shows at once, and finds out whether the server
     * reports numbers of tokens.
     *
     * @return whether requests may ask for usage
     * @throws ConfigurationException with the server's answer when it refuses the request
     */
    public boolean knowsUsage(Prompt prompt) throws InterruptedException {
        String url = target.baseUrl() + target.path();
        HttpResponse<String> asked = send(request(prompt, true), url);
        if (asked.statusCode() == 200) {
            return asked.body().contains("\"usage\"");
        }
        HttpResponse<String> plain = send(request(prompt, false), url);
        if (plain.statusCode() != 200) {
            throw new ConfigurationException(
                    url + " refuses a first request with " + plain.statusCode() + ": " + quote(plain.body()));
        }
        return false;
    }

    private HttpResponse<String> send(HttpRequest request, String url) throws InterruptedException {
        try {
            return send(request, HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8), timeout -> {});
        } catch (IOException e) {
            throw new ConfigurationException(
                    "no server answers at " + url + " (" + StreamReader.reason(e)
                            + "); start it, or name another with --base-url",
                    e);
        }
    }

    static String quote(String text) {
        String line = text.strip().replaceAll("\\s+", " ");
        return line.length() > QUOTED_CHARACTERS ? line.substring(0, QUOTED_CHARACTERS) + " ..." : line;
    }

    @Override
    public void close() {
        client.shutdownNow();
    }
}
