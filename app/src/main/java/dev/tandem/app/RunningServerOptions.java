package dev.tandem.app;

import dev.tandem.app.chat.Answer;
import dev.tandem.app.config.Secret;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Optional;
import picocli.CommandLine.Option;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Options that name a running server, and the question for the state of its engine. */
@Section(Section.Heading.SERVER)
final class RunningServerOptions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    @Option(
            names = "--base-url",
            paramLabel = "URL",
            defaultValue = "http://127.0.0.1:8000",
            description = "Address of the server. Default: ${DEFAULT-VALUE}.")
    String baseUrl = "http://127.0.0.1:8000";

    @Option(
            names = "--api-key",
            paramLabel = "KEY",
            defaultValue = "${env:TANDEM_API_KEY}",
            converter = Secret.Converter.class,
            description = "Key of the server. Default: the variable TANDEM_API_KEY; without it none is sent.")
    Optional<Secret> apiKey = Optional.empty();

    /**
     * What {@code /tandem/engine} of the server says.
     *
     * @throws ConfigurationException when the server cannot be reached, or refuses
     */
    JsonNode engine(HttpClient http) throws InterruptedException {
        HttpResponse<String> answer;
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(
                            URI.create(baseUrl.replaceAll("/+$", "") + "/tandem/engine"))
                    .timeout(TIMEOUT);
            apiKey.map(Secret::value)
                    .filter(key -> !key.isBlank())
                    .ifPresent(key -> request.header("Authorization", "Bearer " + key));
            answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IllegalArgumentException e) {
            throw new ConfigurationException("--base-url " + baseUrl + " is no address of a server (" + e.getMessage()
                    + "); use one such as http://127.0.0.1:8000");
        } catch (IOException e) {
            throw new ConfigurationException("no server answers at " + baseUrl + " ("
                    + e.getClass().getSimpleName() + "); start one with tandem serve, or name another with --base-url");
        }
        return switch (answer.statusCode()) {
            case 200 -> JSON.readTree(answer.body());
            case 401 ->
                throw new ConfigurationException("the server at " + baseUrl
                        + " needs one of its API keys; set --api-key or" + " the variable TANDEM_API_KEY");
            case 503 ->
                throw new ConfigurationException(
                        "the server at " + baseUrl + ": " + Answer.refusal(answer.statusCode(), answer.body()));
            default ->
                throw new ConfigurationException("the server at " + baseUrl + " answers " + answer.statusCode()
                        + " to /tandem/engine; it must be a Tandem of version 0.1 or later");
        };
    }
}
