package dev.tandem.langchain4j;

import static org.assertj.core.api.Assertions.assertThat;

import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.PartialResponse;
import dev.langchain4j.model.chat.response.PartialResponseContext;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.tandem.library.ScriptedTandem;
import dev.tandem.library.Tandem;
import dev.tandem.server.ScriptedServer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** What a handler that cancels its stream still gets, and what the model still computes. */
class CancellationTest {
    /** Tokens that the model may write before the handler has cancelled. */
    private static final int BEFORE = 5;

    private final List<String> called = new CopyOnWriteArrayList<>();
    private final CountDownLatch cancelled = new CountDownLatch(1);
    private final StreamingChatResponseHandler handler = new StreamingChatResponseHandler() {
        @Override
        public void onPartialResponse(PartialResponse part, PartialResponseContext context) {
            called.add("part");
            context.streamingHandle().cancel();
            cancelled.countDown();
        }

        @Override
        public void onCompleteResponse(ChatResponse response) {
            called.add("complete");
        }

        @Override
        public void onError(Throwable error) {
            called.add("error");
        }
    };

    /** Answers with far more than {@link #BEFORE}, and returns once all threads of the answer have ended. */
    private void answer(Runnable beforeStep) throws InterruptedException {
        try (ScriptedServer server = ScriptedServer.of(prompt -> "x".repeat(3000))) {
            server.beforeStep(beforeStep);
            Tandem tandem = ScriptedTandem.of(server.model());
            Thread answering = new TandemStreamingChatModel(tandem)
                    .start(
                            ChatRequest.builder()
                                    .messages(UserMessage.from("Go on"))
                                    .build(),
                            handler);
            cancelled.await();
            answering.join();
            assertThat(tandem.drain(Duration.ofMinutes(2))).isTrue();
        }
    }

    @Test
    void theGenerationEndsAndNothingMoreIsSaid() throws InterruptedException {
        AtomicInteger steps = new AtomicInteger();
        answer(() -> {
            if (steps.incrementAndGet() > BEFORE) {
                awaitCancelled();
            }
        });
        assertThat(called).containsExactly("part");
        assertThat(steps).hasValueLessThan(4 * BEFORE);
    }

    @Test
    void anEngineThatFailsAfterwardsIsNoErrorOfTheStream() throws InterruptedException {
        AtomicInteger steps = new AtomicInteger();
        answer(() -> {
            if (steps.incrementAndGet() > BEFORE) {
                awaitCancelled();
                throw new IllegalStateException("the engine's end, which the test wants");
            }
        });
        assertThat(called).containsExactly("part");
    }

    private void awaitCancelled() {
        try {
            cancelled.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
