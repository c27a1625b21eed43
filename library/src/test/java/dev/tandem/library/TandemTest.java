package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.app.DummyModel;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.request.RequestException;
import dev.tandem.text.answer.AnswerPart;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A small model in this process, with random weights. */
class TandemTest {
    private static final int TOKENS = 24;

    private static Tandem tandem;

    /** A small model that never ends by itself. */
    static LoadOptions options(Path folder) {
        return LoadOptions.of(DummyModel.write(folder).toString())
                .withDevice(Device.CPU)
                .withThreads(1)
                .withKvBytes(4 << 20)
                .withHostKvBytes(0)
                .withFurther("--load-format", "dummy");
    }

    /** A request for exactly this many tokens, where the context allows them. */
    static ChatRequest request(String user, int tokens) {
        return ChatRequest.of(new Message.User(user))
                .withSampling(Sampling.greedy(tokens))
                .withFields(Map.of("ignore_eos", "true"));
    }

    @BeforeAll
    static void load(@TempDir Path folder) {
        tandem = Tandem.load(options(folder));
    }

    @AfterAll
    static void close() {
        tandem.close();
    }

    @Test
    void textComesInPiecesThatMakeTheWholeAnswer() {
        List<String> pieces = new ArrayList<>();
        Answer answer = tandem.chat(request("w3 w4", TOKENS));
        answer.forEach(pieces::add);
        Answer.Result whole = answer.result();
        assertThat(pieces).hasSizeGreaterThan(TOKENS / 2);
        assertThat(String.join("", pieces)).isEqualTo(whole.text()).isNotBlank();
        assertThat(whole.finishReason()).isEqualTo("length");
        assertThat(whole.usage().output()).isEqualTo(TOKENS);
        assertThat(whole.usage().prompt()).isEqualTo(2);
        assertThat(whole.calls()).isEmpty();
    }

    @Test
    void aCompletionContinuesThePromptAsItIs() {
        CompletionRequest request =
                new CompletionRequest("w3 w4", Sampling.greedy(TOKENS), Map.of("ignore_eos", "true"));
        assertThat(tandem.complete(request).result().text())
                .isEqualTo(tandem.chat(request("w3 w4", TOKENS)).result().text());
    }

    @Test
    void requestsOfManyVirtualThreadsAreAnsweredAsEachAlone() throws Exception {
        Map<String, String> alone = List.of("w5", "w6 w7", "w8 w9 w10", "w11").stream()
                .collect(Collectors.toMap(
                        user -> user,
                        user -> tandem.chat(request(user, TOKENS)).result().text()));
        try (ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            List<Future<Boolean>> same = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                for (Map.Entry<String, String> one : alone.entrySet()) {
                    same.add(threads.submit(() -> tandem.chat(request(one.getKey(), TOKENS)).stream()
                            .collect(Collectors.joining())
                            .equals(one.getValue())));
                }
            }
            for (Future<Boolean> one : same) {
                assertThat(one.get()).isTrue();
            }
        }
    }

    @Test
    void anAnswerThatNobodyReadsDelaysNoOther() {
        Answer unread = tandem.chat(request("w12", TOKENS));
        assertThat(tandem.chat(request("w13", 4 * TOKENS)).result().usage().output())
                .isEqualTo(4 * TOKENS);
        assertThat(unread.result().usage().output()).isEqualTo(TOKENS);
    }

    @Test
    void closingAnAnswerEndsItsGeneration() {
        Answer answer = tandem.chat(request("w14", 400));
        Iterator<String> pieces = answer.iterator();
        assertThat(pieces.hasNext()).isTrue();
        answer.close();
        Answer.Result end = answer.result();
        assertThat(end.finishReason()).isEqualTo("abort");
        assertThat(end.usage().output()).isLessThan(400);
    }

    @Test
    void closingTheStreamEndsTheGeneration() {
        Answer answer = tandem.chat(request("w14", 400));
        try (var text = answer.stream()) {
            assertThat(text.findFirst()).isPresent();
        }
        assertThat(answer.result().finishReason()).isEqualTo("abort");
    }

    @Test
    void anInterruptedReaderEndsTheGeneration() {
        Answer answer = tandem.chat(request("w15", 400));
        Thread.currentThread().interrupt();
        // a part may be there already, so that reading it does not wait; reading all of them must
        assertThatThrownBy(answer::result).isInstanceOf(AnswerException.class).hasMessageContaining("interrupted");
        assertThat(Thread.interrupted()).isTrue();
        assertThat(answer.result().finishReason()).isEqualTo("abort");
    }

    @Test
    void partsAreTheTextOfAModelWithoutReasoningAndCalls() {
        Answer answer = tandem.chat(request("w16", TOKENS));
        StringBuilder text = new StringBuilder();
        answer.parts().forEachRemaining(part -> text.append(((AnswerPart.Content) part).text()));
        assertThat(text.toString()).isEqualTo(answer.result().text());
    }

    @Test
    void wrongValuesAreRefusedAsTheServerRefusesThem() {
        assertThatThrownBy(() -> tandem.chat(request("w1", 0)))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("max_tokens is 0");
        assertThatThrownBy(() -> tandem.chat(request("w1", 1).withFields(Map.of("n", "2"))))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("one answer at a time");
        assertThatThrownBy(() -> tandem.chat(request("w1", 1).withFields(Map.of("seed", "1 2 oops"))))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("seed");
        assertThatThrownBy(() -> tandem.chat(request("w1", 1).withFields(Map.of("colour", "1"))))
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("colour");
    }

    @Test
    void wrongOptionsNameOptionAndRemedy(@TempDir Path folder) {
        LoadOptions options = options(folder);
        assertThatThrownBy(() -> Tandem.load(options.withThreads(0)))
                .isInstanceOf(ConfigurationException.class)
                .hasMessage("--threads 0 is too small; it must be at least 1");
        assertThatThrownBy(() -> Tandem.load(options.withFurther("--port", "80")))
                .isInstanceOf(ConfigurationException.class)
                .hasMessageContaining("--port");
        assertThatThrownBy(
                        () -> Tandem.load(LoadOptions.of("no-such-model.gguf").withDevice(Device.CPU)))
                .hasMessageContaining("no-such-model.gguf");
    }

    @Test
    void theModelIsDescribed() {
        assertThat(tandem.contextTokens()).isEqualTo(512);
        assertThat(tandem.countTokens("w1 w2 w3")).isEqualTo(3);
        assertThat(tandem.stats().gpu().blocks()).isPositive();
        assertThat(tandem.model()).isNotBlank();
    }
}
