package dev.tandem.app.chat;

import dev.tandem.app.config.Secret;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Asks a server of OpenAI's API. Closing it closes its connections. Owned by: the main thread. */
public final class ChatClient implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** For the list of models, which a server answers at once. */
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final String baseUrl;
    private final Optional<Secret> key;
    private final Duration loadingPause;
    private final HttpClient http = HttpClient.newHttpClient();

    /** @throws ConfigurationException when the address is none */
    public ChatClient(String baseUrl, Optional<Secret> key) {
        this(baseUrl, key, LoadingWait.PAUSE);
    }

    /** @param loadingPause between tries while the server loads its model */
    ChatClient(String baseUrl, Optional<Secret> key, Duration loadingPause) {
        this.loadingPause = loadingPause;
        this.baseUrl = baseUrl.replaceAll("/+$", "").replaceAll("/v1$", "");
        this.key = key.filter(given -> !given.value().isBlank());
        request("/v1/models");
    }

    private HttpRequest.Builder request(String path) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(baseUrl + path));
            key.ifPresent(given -> request.header("Authorization", "Bearer " + given.value()));
            return request;
        } catch (IllegalArgumentException e) {
            throw new ConfigurationException(
                    "--base-url " + baseUrl + " is no address of a server; use one such as http://127.0.0.1:8000");
        }
    }

    /**
     * The name of the server's first model. Waits while it is loaded; only Ctrl-C ends that.
     *
     * @param loading receives lines that say how far loading is
     * @throws ConfigurationException when the server cannot be reached, or refuses
     */
    public String model(Consumer<String> loading) throws InterruptedException {
        LoadingWait wait = new LoadingWait(loadingPause, loading);
        CountDownLatch never = new CountDownLatch(1);
        HttpResponse<String> answer = models();
        while (wait.waited(answer.statusCode(), answer.body(), never)) {
            answer = models();
        }
        if (answer.statusCode() == 401) {
            throw new ConfigurationException("the server at " + baseUrl
                    + " needs one of its API keys; set --api-key or the variable TANDEM_API_KEY");
        }
        if (answer.statusCode() != 200) {
            throw new ConfigurationException(
                    "the server at " + baseUrl + ": " + Answer.refusal(answer.statusCode(), answer.body()));
        }
        try {
            String name =
                    JSON.readTree(answer.body()).path("data").path(0).path("id").asString("");
            if (!name.isEmpty()) {
                return name;
            }
        } catch (JacksonException e) {
            // the same as an answer without a model
        }
        throw new ConfigurationException(
                "the server at " + baseUrl + " names no model at /v1/models; name one after chat");
    }

    private HttpResponse<String> models() throws InterruptedException {
        try {
            return http.send(request("/v1/models").timeout(TIMEOUT).build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException e) {
            throw new ConfigurationException("no server answers at " + baseUrl + " ("
                    + e.getClass().getSimpleName()
                    + "); start one with tandem serve, or leave --base-url out to load a model here");
        }
    }

    /** A request for a streamed answer, which reading it sends. */
    public Answer ask(ObjectNode body) {
        HttpRequest request = request("/v1/chat/completions")
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
        return new Answer(
                baseUrl, loadingPause, () -> http.sendAsync(request, HttpResponse.BodyHandlers.ofInputStream()));
    }

    @Override
    public void close() {
        http.shutdownNow();
        http.close();
    }
}
