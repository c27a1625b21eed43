package dev.tandem.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.RequestException;
import dev.tandem.server.openai.LocalAnswer;
import dev.tandem.server.openai.LocalApi;
import dev.tandem.server.openai.TokenizerPool;
import dev.tandem.text.answer.AnswerPart;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import tools.jackson.databind.node.ObjectNode;

/** The APIs without HTTP, with a model that answers by a script. */
@Timeout(value = 1, unit = TimeUnit.MINUTES)
class LocalApiTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TEMPLATE = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
            + "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{# <tool_call> <think></think> #}";
    private static final String TOOLS = "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"weather\","
            + " \"parameters\": {\"type\": \"object\"}}}]";
    private static final String ANSWER = "<think>Where?</think>I look.\n<tool_call>\n"
            + "{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";

    private static ObjectNode chat(String fields) {
        return (ObjectNode) JSON.readTree("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"
                + (fields.isEmpty() ? "" : ", " + fields) + "}");
    }

    private static List<AnswerPart> parts(LocalAnswer answer) throws InterruptedException {
        List<AnswerPart> parts = new ArrayList<>();
        while (!answer.isEnded()) {
            parts.addAll(answer.next());
        }
        return parts;
    }

    private static String joined(List<AnswerPart> parts) {
        StringBuilder reasoning = new StringBuilder();
        StringBuilder rest = new StringBuilder();
        for (AnswerPart part : parts) {
            switch (part) {
                case AnswerPart.Reasoning more -> reasoning.append(more.text());
                case AnswerPart.Content more -> rest.append(more.text());
                case AnswerPart.Call call ->
                    rest.append('(').append(call.name()).append(')');
                case AnswerPart.Arguments more -> rest.append(more.text());
            }
        }
        return "[" + reasoning + "]" + rest;
    }

    @Test
    void theAnswerIsTheOneOverHttp() throws IOException, InterruptedException {
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> ANSWER);
                TokenizerPool pool = TokenizerPool.of(8)) {
            LocalAnswer local = new LocalApi(server.model, pool).chat(chat(TOOLS));
            List<AnswerPart> parts = parts(local);
            JsonNode remote = server.choice(TOOLS);
            assertThat(local.failure()).isEmpty();
            assertThat(local.finishReason())
                    .isEqualTo("tool_calls")
                    .isEqualTo(remote.path("finish_reason").asString());
            assertThat(joined(parts)).isEqualTo("[Where?]I look.(weather){\"city\": \"Bern\"}");
            assertThat(remote.at("/message/content").asString()).isEqualTo("I look.");
            assertThat(local.usage().reasoning()).isEqualTo("Where?".length() + 1); // with the marker of its end
            assertThat(local.usage().prompt()).isEqualTo("user:hi\nweather".length());
            assertThat(local.callId(0)).startsWith("call_");
        }
    }

    @Test
    void theGrammarIsFreedOnceTheRequestIsSubmitted() throws InterruptedException {
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> "{}");
                TokenizerPool pool = TokenizerPool.of(8)) {
            LocalAnswer answer =
                    new LocalApi(server.model, pool).chat(chat("\"response_format\": {\"type\": \"json_object\"}"));
            assertThat(server.grammars.compiled).hasSize(1);
            assertThat(server.grammars.open).hasValue(0);
            assertThat(joined(parts(answer))).isEqualTo("[]{}");
        }
    }

    @Test
    void fieldsThatShapeAnHttpAnswerAreRefused() {
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> "");
                TokenizerPool pool = TokenizerPool.of(8)) {
            LocalApi api = new LocalApi(server.model, pool);
            for (String field : List.of("n", "stream", "logprobs", "top_logprobs", "prompt_logprobs")) {
                assertThatThrownBy(() -> api.chat(chat("\"" + field + "\": 1")))
                        .as(field)
                        .isInstanceOf(RequestException.class)
                        .hasMessageContaining(field + " is for answers over HTTP");
            }
            assertThatThrownBy(() -> api.complete((ObjectNode) JSON.readTree("{\"prompt\": \"a\", \"echo\": true}")))
                    .hasMessageContaining("echo is for");
            assertThatThrownBy(() -> api.complete((ObjectNode) JSON.readTree("{\"prompt\": [\"a\", \"b\"]}")))
                    .hasMessageContaining("2 prompts");
        }
    }

    @Test
    void whatWaitsToBeTokenizedIsRefusedWhenThePoolIsClosed() throws Exception {
        CountDownLatch tokenizing = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        TokenizerPool pool = TokenizerPool.of(8);
        ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
        try (ScriptedServer server = new ScriptedServer(TEMPLATE, prompt -> "")) {
            LocalApi api = new LocalApi(server.model, pool);
            server.scripted.beforeEncoding = () -> {
                tokenizing.countDown();
                awaitUninterruptibly(released);
            };
            List<Future<LocalAnswer>> answers = new ArrayList<>();
            for (int i = 0; i < 9; i++) { // more than the pool has threads
                answers.add(threads.submit(() -> api.chat(chat(""))));
            }
            tokenizing.await();
            Future<?> closing = threads.submit(pool::close);
            int refused = 0;
            for (Future<LocalAnswer> answer : answers) {
                refused += refusal(answer).contains("is being closed") ? 1 : 0;
            }
            assertThat(refused).isEqualTo(8);
            assertThat(closing.isDone()).isFalse(); // a thread uses the tokenizer
            released.countDown();
            closing.get();
            assertThatThrownBy(() -> api.countTokens("hi")).hasMessageContaining("is being closed");
        } finally {
            released.countDown(); // a failed test must not leave a thread behind
        }
    }

    /** Why there is no answer; empty when none comes within some seconds. */
    private static String refusal(Future<LocalAnswer> answer) throws InterruptedException {
        try {
            answer.get(4, TimeUnit.SECONDS);
            return "";
        } catch (ExecutionException e) {
            return e.toString();
        } catch (TimeoutException e) {
            return "";
        }
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        while (true) {
            try {
                latch.await();
                return;
            } catch (InterruptedException e) {
                // the pool interrupts its threads when it is closed; native code would not notice
            }
        }
    }
}
