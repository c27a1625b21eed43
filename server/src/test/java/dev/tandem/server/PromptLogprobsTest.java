package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;

/** Log-probabilities of prompts, with a model to which the letter b is twice as probable as any other token. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class PromptLogprobsTest {
    private static final String COMPLETIONS = "/v1/completions";
    /** The scripted model has 1,015 tokens. */
    private static final double OTHER = -Math.log(1016);

    private static final double B = Math.log(2) + OTHER;

    private static ScriptedServer server() {
        return new ScriptedServer("{{ messages[0].content }}", prompt -> "yes");
    }

    private static JsonNode answer(ScriptedServer server, String fields) throws IOException {
        RawClient.Answer answer = server.post(COMPLETIONS, "{" + fields + "}");
        assertThat(answer.status()).as(answer.body()).isEqualTo(200);
        return answer.json();
    }

    /** What lm-eval's local-completions sends: token ids, echo, logprobs 1, and one token that it drops. */
    @Test
    void anEchoHasTheLogProbabilitiesOfThePrompt() throws IOException {
        try (ScriptedServer server = server()) {
            JsonNode choice = answer(
                            server,
                            "\"prompt\": [97, 98, 99], \"echo\": true, \"logprobs\": 1, \"max_tokens\": 0,"
                                    + " \"temperature\": 0")
                    .at("/choices/0");
            assertThat(choice.path("text").asString()).isEqualTo("abc");
            assertThat(choice.path("finish_reason").asString()).isEqualTo("length");
            JsonNode logprobs = choice.path("logprobs");
            assertThat(logprobs.path("tokens").valueStream().map(JsonNode::asString))
                    .containsExactly("a", "b", "c");
            assertThat(logprobs.at("/token_logprobs/0").isNull()).isTrue();
            assertThat(logprobs.at("/token_logprobs/1").asDouble()).isCloseTo(B, within(1e-5));
            assertThat(logprobs.at("/token_logprobs/2").asDouble()).isCloseTo(OTHER, within(1e-5));
            assertThat(logprobs.at("/top_logprobs/0").isNull()).isTrue();
            assertThat(logprobs.at("/top_logprobs/1").propertyNames()).containsExactly("b");
            assertThat(logprobs.at("/top_logprobs/2").propertyNames()).containsExactly("c", "b");
            assertThat(logprobs.path("text_offset").valueStream().map(JsonNode::asInt))
                    .containsExactly(0, 1, 2);
        }
    }

    @Test
    void withoutTokensOfItsOwnTheAnswerCostsNone() throws IOException {
        try (ScriptedServer server = server()) {
            JsonNode usage = answer(server, "\"prompt\": \"ab\", \"echo\": true, \"max_tokens\": 0")
                    .path("usage");
            assertThat(usage.path("completion_tokens").asInt()).isZero();
            assertThat(usage.path("prompt_tokens").asInt()).isEqualTo(2);
            assertThat(server.post(COMPLETIONS, "{\"prompt\": \"ab\", \"max_tokens\": 0}")
                            .status())
                    .as("without echo there is nothing to answer")
                    .isEqualTo(400);
        }
    }

    @Test
    void promptLogprobsAreListedPerPromptAndChoice() throws IOException {
        try (ScriptedServer server = server()) {
            JsonNode answer =
                    answer(server, "\"prompt\": [\"ab\", \"cd\"], \"n\": 2, \"prompt_logprobs\": 1, \"max_tokens\": 1");
            for (int i = 0; i < 4; i++) {
                JsonNode list = answer.at("/choices/" + i + "/prompt_logprobs");
                assertThat(list.size()).isEqualTo(2);
                assertThat(list.get(0).isNull()).isTrue();
                JsonNode own = list.get(1).path(i < 2 ? "98" : "100");
                assertThat(own.path("logprob").asDouble()).isCloseTo(i < 2 ? B : OTHER, within(1e-5));
                assertThat(own.path("rank").asInt()).isEqualTo(i < 2 ? 1 : 2);
                assertThat(own.path("decoded_token").asString()).isEqualTo(i < 2 ? "b" : "d");
                assertThat(list.get(1).path("98").path("rank").asInt()).isEqualTo(1);
            }
        }
    }

    @Test
    void aChatAnswerHasThemOnce() throws IOException {
        try (ScriptedServer server = server()) {
            JsonNode answer = server.ask("\"prompt_logprobs\": 0, \"n\": 2").json();
            assertThat(answer.path("prompt_logprobs").size()).isEqualTo("hi".length());
            assertThat(answer.at("/prompt_logprobs/1/105/logprob").asDouble()).isCloseTo(OTHER, within(1e-5));
        }
    }

    @Test
    void whatCannotBeDoneIsRefused() throws IOException {
        try (ScriptedServer server = server()) {
            for (String fields : List.of(
                    "\"echo\": true, \"logprobs\": 0, \"stream\": true",
                    "\"prompt_logprobs\": 1, \"stream\": true",
                    "\"prompt_logprobs\": 21")) {
                RawClient.Answer answer = server.post(COMPLETIONS, "{\"prompt\": \"ab\", " + fields + "}");
                assertThat(answer.status()).as(fields).isEqualTo(400);
                assertThat(answer.parameter()).isIn("echo", "prompt_logprobs");
            }
        }
    }
}
