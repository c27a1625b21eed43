package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** Reasoning over HTTP, with a model that writes it by a script. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class ReasoningTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String BODY = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}";
    /** A template that can switch reasoning off, and one that begins it. */
    private static final String SWITCHES =
            BODY + "{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '' }}";

    private static final String BEGINS = BODY + "{# </think> #}<think>\n";
    private static final String HARMONY =
            BODY + "{{ reasoning_effort }}<|start|>assistant{# <|channel|> <|message|> #}";
    private static final String ANSWER = "<think>\nabcde\n</think>\n\nYes.";

    @Test
    void aGrammarTellsTheTemplateNotToReason() throws IOException {
        try (ScriptedServer server = new ScriptedServer(SWITCHES, prompt -> "{}")) {
            String json = "\"response_format\": {\"type\": \"json_object\"}";
            for (String effort : List.of("", ", \"reasoning_effort\": \"none\"")) {
                server.choice(json + effort);
                assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            }
            RawClient.Answer refused = server.ask(json + ", \"reasoning_effort\": \"high\"");
            assertThat(refused.status()).isEqualTo(400);
            assertThat(refused.error()).contains("response_format cannot be combined with reasoning_effort");
            String text = "{\"input\": \"hi\", \"text\": {\"format\": {\"type\": \"json_object\"}}";
            assertThat(server.post("/v1/responses", text + "}").status()).isEqualTo(200);
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            refused = server.post("/v1/responses", text + ", \"reasoning\": {\"effort\": \"high\"}}");
            assertThat(refused.status()).isEqualTo(400);
            assertThat(refused.error()).contains("text.format cannot be combined with reasoning.effort");
        }
    }

    @Test
    void reasoningIsSplitOffAndCounted() throws IOException {
        try (ScriptedServer server = new ScriptedServer(SWITCHES, prompt -> ANSWER)) {
            JsonNode answer = server.ask("").json();
            JsonNode message = answer.at("/choices/0/message");
            assertThat(message.path("reasoning_content").asString()).isEqualTo("abcde");
            assertThat(message.path("content").asString()).isEqualTo("Yes.");
            // five letters, two line ends and the marker that ends it; the end token counts as output only
            assertThat(answer.at("/usage/completion_tokens_details/reasoning_tokens")
                            .asInt())
                    .isEqualTo(8);
            assertThat(answer.at("/usage/completion_tokens").asInt()).isEqualTo(8 + 1 + 6 + 1);
        }
    }

    private static String joined(List<JsonNode> chunks, String field) {
        StringBuilder text = new StringBuilder();
        chunks.forEach(
                chunk -> text.append(chunk.at("/choices/0/delta/" + field).asString("")));
        return text.toString();
    }

    @Test
    void aStreamHasTheSameReasoning() throws IOException {
        try (ScriptedServer server = new ScriptedServer(BEGINS, prompt -> "abc\n</think>\n\nYes.")) {
            List<JsonNode> chunks = server.chunks("\"stream_options\": {\"include_usage\": true}");
            assertThat(joined(chunks, "reasoning_content")).isEqualTo("abc");
            assertThat(joined(chunks, "content")).isEqualTo("Yes.");
            assertThat(chunks.getLast()
                            .at("/usage/completion_tokens_details/reasoning_tokens")
                            .asInt())
                    .isEqualTo(5);
            assertThat(chunks.getFirst().at("/choices/0/delta").has("reasoning_content"))
                    .as("no reasoning_content that is null")
                    .isFalse();
        }
    }

    @Test
    void reasoningCanBeLeftOut() throws IOException {
        try (ScriptedServer server = new ScriptedServer(SWITCHES, prompt -> ANSWER)) {
            JsonNode message = server.choice("\"include_reasoning\": false").path("message");
            assertThat(message.has("reasoning_content")).isFalse();
            assertThat(message.path("content").asString()).isEqualTo("Yes.");
            List<JsonNode> chunks = server.chunks("\"include_reasoning\": false");
            assertThat(joined(chunks, "reasoning_content")).isEmpty();
            assertThat(joined(chunks, "content")).isEqualTo("Yes.");
        }
    }

    @Test
    void harmonysAnalysisIsReasoning() throws IOException {
        try (ScriptedServer server = new ScriptedServer(
                HARMONY,
                prompt ->
                        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.")) {
            JsonNode message = server.choice("\"reasoning_effort\": \"high\"").path("message");
            assertThat(message.path("reasoning_content").asString()).isEqualTo("Hm.");
            assertThat(message.path("content").asString()).isEqualTo("Yes.");
            assertThat(server.scripted.seen.getFirst()).contains("high<|start|>");
        }
    }

    /** The message that the rendering of jinja2 was made of, and what clients make of the same message. */
    @Test
    void reasoningBeforeCallsReachesTheTemplateOfGptOss() throws IOException {
        Path templates = Path.of("../text/src/test/resources/templates");
        JsonNode golden = JSON.readTree(Files.readAllBytes(templates.resolve("goldens.json")))
                .valueStream()
                .filter(one -> one.path("template").asString().equals("gptoss.jinja"))
                .filter(one -> one.at("/variables/messages/1").has("thinking"))
                .findFirst()
                .orElseThrow();
        String expected = golden.path("output").asString();
        assertThat(expected).contains("analysis<|message|>Look it up.<|end|><|start|>assistant to=functions.");
        ObjectNode request = JSON.createObjectNode();
        for (String name : List.of("tools", "messages", "reasoning_effort")) {
            request.set(name, golden.at("/variables/" + name));
        }
        ObjectNode call = (ObjectNode) request.at("/messages/1");
        call.remove("thinking");
        call.put("reasoning_content", "Look it up.").putNull("content");
        ObjectNode function = (ObjectNode) call.at("/tool_calls/0/function");
        function.put("arguments", function.path("arguments").toString());
        String template = Files.readString(templates.resolve("gptoss.jinja"));
        try (ScriptedServer server = new ScriptedServer(template, prompt -> "<|channel|>final<|message|>Warm.")) {
            RawClient.Answer answer = server.post("/v1/chat/completions", request.toString());
            assertThat(answer.status()).as(answer.body()).isEqualTo(200);
            assertThat(undated(server.scripted.seen.getLast())).isEqualTo(undated(expected));
            // the template refuses text beside reasoning, so the text stays alone
            call.put("content", "I look.");
            assertThat(server.post("/v1/chat/completions", request.toString()).status())
                    .isEqualTo(200);
            assertThat(undated(server.scripted.seen.getLast()))
                    .isEqualTo(undated(expected).replace("Look it up.", "I look."));
        }
    }

    private static String undated(String prompt) {
        return prompt.replaceAll("Current date: [0-9-]+", "Current date: today");
    }

    @Test
    void effortNoneSwitchesReasoningOff() throws IOException {
        try (ScriptedServer server = new ScriptedServer(SWITCHES, prompt -> "Yes.")) {
            server.choice("\"reasoning_effort\": \"none\"");
            assertThat(server.scripted.seen.getLast()).endsWith("<think></think>");
            server.choice("\"reasoning_effort\": \"low\"");
            assertThat(server.scripted.seen.getLast()).endsWith("hi\n");
        }
    }

    @Test
    void anEffortWithoutEffectIsRefused() throws IOException {
        try (ScriptedServer server = new ScriptedServer(BODY, prompt -> "Yes.")) {
            RawClient.Answer answer = server.ask("\"reasoning_effort\": \"high\"");
            assertThat(answer.status()).isEqualTo(400);
            assertThat(answer.parameter()).isEqualTo("reasoning_effort");
            assertThat(server.ask("\"reasoning_effort\": \"much\"").error()).contains("it must be one of");
            assertThat(server.ask("\"reasoning_effort\": \"none\"").status()).isEqualTo(200);
            RawClient.Answer budget = server.ask("\"thinking_token_budget\": 3");
            assertThat(budget.status()).isEqualTo(400);
            assertThat(budget.parameter()).isEqualTo("thinking_token_budget");
        }
        try (ScriptedServer server = new ScriptedServer(BEGINS, prompt -> "Yes.")) {
            assertThat(server.ask("\"reasoning_effort\": \"none\"").status())
                    .as("the template always reasons")
                    .isEqualTo(400);
            assertThat(server.ask("\"thinking_token_budget\": -1").error()).contains("0 or more");
        }
    }

    /** A model that reasons without end unless its reasoning was ended. */
    private static ScriptedServer endless(String template, String ending) {
        return new ScriptedServer(template, prompt -> prompt.endsWith(ending) ? "Yes." : "x".repeat(2000));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aBudgetEndsTheReasoning(boolean stream) throws IOException {
        try (ScriptedServer server = endless(BEGINS, "xxx\n</think>\n\n")) {
            String fields = "\"thinking_token_budget\": 3, \"max_tokens\": 100";
            String reasoning;
            String content;
            if (stream) {
                List<JsonNode> chunks = server.chunks(fields);
                reasoning = joined(chunks, "reasoning_content");
                content = joined(chunks, "content");
                assertThat(chunks.getLast().at("/choices/0/finish_reason").asString())
                        .isEqualTo("stop");
            } else {
                JsonNode answer = server.ask(fields).json();
                reasoning = answer.at("/choices/0/message/reasoning_content").asString();
                content = answer.at("/choices/0/message/content").asString();
                assertThat(answer.at("/usage/completion_tokens_details/reasoning_tokens")
                                .asInt())
                        .isEqualTo(3);
                assertThat(answer.at("/usage/completion_tokens").asInt()).isEqualTo(3 + 4 + 1);
                assertThat(answer.at("/choices/0/finish_reason").asString()).isEqualTo("stop");
            }
            assertThat(reasoning).isEqualTo("xxx");
            assertThat(content).isEqualTo("Yes.");
        }
    }

    @Test
    void aBudgetOfZeroLeavesNoReasoning() throws IOException {
        try (ScriptedServer server = endless(BEGINS, "<think>\n</think>\n\n")) {
            JsonNode answer = server.ask("\"thinking_token_budget\": 0").json();
            assertThat(answer.at("/choices/0/message/content").asString()).isEqualTo("Yes.");
            assertThat(answer.at("/choices/0/message").has("reasoning_content")).isFalse();
            assertThat(answer.at("/usage/completion_tokens_details/reasoning_tokens")
                            .asInt())
                    .isZero();
        }
    }

    @Test
    void eachChoiceHasItsBudget() throws IOException {
        try (ScriptedServer server = endless(BEGINS, "xx\n</think>\n\n")) {
            JsonNode answer =
                    server.ask("\"thinking_token_budget\": 2, \"n\": 3").json();
            assertThat(answer.path("choices").size()).isEqualTo(3);
            for (JsonNode choice : answer.path("choices")) {
                assertThat(choice.at("/message/reasoning_content").asString()).isEqualTo("xx");
                assertThat(choice.at("/message/content").asString()).isEqualTo("Yes.");
            }
        }
    }

    @Test
    void maxTokensCountsReasoningAndAnswerTogether() throws IOException {
        try (ScriptedServer server = endless(BEGINS, "xxx\n</think>\n\n")) {
            JsonNode choice = server.choice("\"thinking_token_budget\": 3, \"max_tokens\": 5");
            assertThat(choice.at("/message/content").asString()).isEqualTo("Ye");
            assertThat(choice.path("finish_reason").asString()).isEqualTo("length");
            JsonNode short3 = server.choice("\"thinking_token_budget\": 3, \"max_tokens\": 3");
            assertThat(short3.at("/message/reasoning_content").asString()).isEqualTo("xxx");
            assertThat(short3.path("finish_reason").asString()).isEqualTo("length");
        }
    }
}
