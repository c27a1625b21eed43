package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.text.answer.AnswerPart;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Flow;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AnswerPublisherTest {
    private static final int TOKENS = 12;

    private static Tandem tandem;

    @BeforeAll
    static void load(@TempDir Path folder) {
        tandem = Tandem.load(TandemTest.options(folder));
    }

    @AfterAll
    static void close() {
        tandem.close();
    }

    /** Keeps what it gets. */
    private static final class Subscriber implements Flow.Subscriber<AnswerPart> {
        final List<AnswerPart> parts = new CopyOnWriteArrayList<>();
        /** A part's text, "complete", or the error's message. */
        final BlockingQueue<String> events = new LinkedBlockingQueue<>();

        final BlockingQueue<Flow.Subscription> subscription = new LinkedBlockingQueue<>();

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription.add(given);
        }

        @Override
        public void onNext(AnswerPart part) {
            parts.add(part);
            events.add(((AnswerPart.Content) part).text());
        }

        @Override
        public void onError(Throwable error) {
            events.add(error.toString());
        }

        @Override
        public void onComplete() {
            events.add("complete");
        }
    }

    @Test
    void aSubscriberGetsWhatItRequestsAndThenTheEnd() throws InterruptedException {
        Answer answer = tandem.chat(TandemTest.request("w2 w3", TOKENS));
        Subscriber subscriber = new Subscriber();
        answer.publisher().subscribe(subscriber);
        Flow.Subscription subscription = subscriber.subscription.take();
        subscription.request(1);
        String first = subscriber.events.take();
        // the engine has ended the answer, and the subscriber still has what it requested
        assertThat(tandem.chat(TandemTest.request("w4", 4 * TOKENS)).result().text())
                .isNotBlank();
        assertThat(subscriber.parts).hasSize(1);
        subscription.request(Long.MAX_VALUE);
        StringBuilder text = new StringBuilder(first);
        for (String event = subscriber.events.take(); !event.equals("complete"); event = subscriber.events.take()) {
            text.append(event);
        }
        assertThat(text.toString())
                .isEqualTo(tandem.chat(TandemTest.request("w2 w3", TOKENS))
                        .result()
                        .text());
    }

    @Test
    void cancellingEndsTheGeneration() throws InterruptedException {
        Answer answer = tandem.chat(TandemTest.request("w5", 450));
        Subscriber subscriber = new Subscriber();
        answer.publisher().subscribe(subscriber);
        Flow.Subscription subscription = subscriber.subscription.take();
        subscription.request(1);
        subscriber.events.take();
        subscription.cancel();
        assertThat(answer.result().finishReason()).isEqualTo("abort");
        assertThat(subscriber.events).isEmpty();
    }

    @Test
    void aSubscriberThatRequestsNothingSensibleGetsAnError() throws InterruptedException {
        Subscriber subscriber = new Subscriber();
        tandem.chat(TandemTest.request("w7", TOKENS)).publisher().subscribe(subscriber);
        subscriber.subscription.take().request(0);
        assertThat(subscriber.events.take()).contains("must request at least 1");
    }

    @Test
    void aSecondSubscriberIsRefused() throws InterruptedException {
        Flow.Publisher<AnswerPart> publisher =
                tandem.chat(TandemTest.request("w8", TOKENS)).publisher();
        publisher.subscribe(new Subscriber());
        Subscriber second = new Subscriber();
        publisher.subscribe(second);
        assertThat(second.events.take()).contains("read once");
    }
}
