package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/**
 * Log-likelihoods of lm-eval, which scores whole prompts, against those of decoded tokens.
 *
 * <p>lm-eval comes from the network, so the test is excluded by default; docs/reference/http-api.md shows how it runs.
 */
@Tag("clients")
@Timeout(value = 5, unit = TimeUnit.MINUTES)
class LmEvalTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long SEED = 7;
    private static final double TOLERANCE = 1e-3;
    private static final int REQUESTS = 12;

    @TempDir
    private Path folder;

    @Test
    void logLikelihoodsAreThoseOfDecoding() throws IOException, InterruptedException {
        String python = System.getProperty("tandem.clients.lmeval", "");
        assumeFalse(python.isEmpty(), "the property tandem.clients.lmeval is not set");
        Path model = DummyModel.write(folder.resolve("dummy"));
        try (LocalServer server = new LocalServer(model.toString(), "--load-format", "dummy")) {
            String name = JSON.readTree(server.get("/v1/models").body())
                    .at("/data/0/id")
                    .asString();
            List<JsonNode> answers = run(python, server, name);
            assertThat(answers).hasSize(REQUESTS);
            int greedy = 0;
            for (JsonNode answer : answers) {
                Decoded decoded = decode(
                        server,
                        words(answer.path("context").asString()),
                        words(answer.path("continuation").asString()));
                assertThat(answer.path("likelihood").asDouble())
                        .as("seed " + SEED + ": " + answer)
                        .isCloseTo(decoded.likelihood(), within(TOLERANCE));
                assertThat(answer.path("greedy").asBoolean())
                        .as(answer.toString())
                        .isEqualTo(decoded.greedy());
                greedy += decoded.greedy() ? 1 : 0;
            }
            assertThat(greedy).as("greedy continuations").isBetween(1, REQUESTS - 1);
        }
    }

    private List<JsonNode> run(String python, ServerClient server, String name)
            throws IOException, InterruptedException {
        Random random = new Random(SEED);
        StringBuilder requests = new StringBuilder();
        for (int i = 0; i < REQUESTS; i++) {
            String context = text(random, 1 + random.nextInt(40));
            int tokens = 1 + i / 3;
            String continuation = i % 2 == 0 ? greedy(server, context, tokens) : text(random, tokens);
            requests.append(JSON.createArrayNode().add(context).add(" " + continuation))
                    .append('\n');
        }
        Path input = Files.writeString(folder.resolve("requests"), requests);
        Path output = folder.resolve("answers");
        Process process = new ProcessBuilder(python, "src/test/python/lm_eval_client.py", server.address, name)
                .redirectInput(input.toFile())
                .redirectOutput(output.toFile())
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        assertThat(process.waitFor()).isZero();
        return Files.readAllLines(output, StandardCharsets.UTF_8).stream()
                .map(JSON::readTree)
                .toList();
    }

    /** The most probable continuation. */
    private static String greedy(ServerClient server, String context, int tokens)
            throws IOException, InterruptedException {
        ObjectNode request = JSON.createObjectNode()
                .put("max_tokens", tokens)
                .put("logprobs", 1)
                .put("temperature", 0);
        words(context).forEach(request.putArray("prompt")::add);
        JsonNode answer =
                JSON.readTree(server.post("/v1/completions", request.toString()).body());
        return String.join(
                " ",
                answer.at("/choices/0/logprobs/tokens")
                        .valueStream()
                        .map(JsonNode::asString)
                        .toList());
    }

    private static String text(Random random, int words) {
        return String.join(
                " ",
                IntStream.range(0, words)
                        .mapToObj(i -> "w" + (3 + random.nextInt(300)))
                        .toList());
    }

    /** The tokens of a text of the dummy model: its words are w and their id. */
    private static List<Integer> words(String text) {
        return List.of(text.strip().split(" ")).stream()
                .map(word -> Integer.parseInt(word.substring(1)))
                .toList();
    }

    /**
     * What decoding says of a continuation.
     *
     * @param greedy whether each token was the most probable one
     */
    private record Decoded(double likelihood, boolean greedy) {}

    private static Decoded decode(ServerClient server, List<Integer> context, List<Integer> continuation)
            throws IOException, InterruptedException {
        ObjectNode request = JSON.createObjectNode().put("max_tokens", 1).put("logprobs", 1);
        context.forEach(request.putArray("prompt")::add);
        double sum = 0;
        boolean greedy = true;
        for (int token : continuation) {
            request.putArray("allowed_token_ids").add(token);
            HttpResponse<String> answer = server.post("/v1/completions", request.toString());
            assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
            JsonNode logprobs = JSON.readTree(answer.body()).at("/choices/0/logprobs");
            sum += logprobs.at("/token_logprobs/0").asDouble();
            greedy &= logprobs.at("/top_logprobs/0").size() == 1;
            request.withArray("prompt").add(token);
        }
        return new Decoded(sum, greedy);
    }
}
