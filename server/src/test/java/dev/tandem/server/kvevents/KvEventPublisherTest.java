package dev.tandem.server.kvevents;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvTier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMsg;

@Timeout(value = 1, unit = TimeUnit.MINUTES)
class KvEventPublisherTest {
    private static final String LOOPBACK = "tcp://127.0.0.1:*";

    private final ZContext context = new ZContext();
    private final VirtualClock clock = new VirtualClock();
    private final InstantSource time = InstantSource.fixed(Instant.ofEpochMilli(1_500));

    @AfterEach
    void close() {
        context.close();
    }

    private KvEventPublisher publisher(int bufferSteps, int queueSize) {
        return new KvEventPublisher(
                new KvEventsConfig(LOOPBACK, Optional.of(LOOPBACK), bufferSteps, 100, queueSize, "kv@here"),
                clock,
                time);
    }

    private static List<KvEvent> batch(long hash) {
        return List.of(new KvEvent.Removed(KvTier.GPU, Optional.empty(), new long[] {hash}));
    }

    private static byte[] payload(long hash) {
        return KvEventEncoder.encode(1.5, batch(hash));
    }

    private static long number(byte[] frame) {
        return ByteBuffer.wrap(frame).getLong();
    }

    /** A message of the REP side, without the empty frame. */
    private record Answer(long number, byte[] payload) {}

    /** What the publisher sends again from a number on, without the last message. */
    private List<Answer> replay(KvEventPublisher publisher, long from) {
        ZMQ.Socket socket = context.createSocket(SocketType.DEALER);
        socket.connect(publisher.replayEndpoint());
        socket.sendMore(new byte[0]);
        socket.send(ByteBuffer.allocate(8).putLong(from).array());
        List<Answer> answers = new ArrayList<>();
        while (true) {
            ZMsg message = ZMsg.recvMsg(socket);
            assertThat(message).hasSize(3);
            assertThat(message.pop().getData()).isEmpty();
            long number = number(message.pop().getData());
            byte[] payload = message.pop().getData();
            if (number == -1) {
                assertThat(payload).isEmpty();
                socket.close();
                return answers;
            }
            answers.add(new Answer(number, payload));
        }
    }

    private List<Long> numbers(KvEventPublisher publisher, long from) {
        return replay(publisher, from).stream().map(Answer::number).toList();
    }

    /** Asks until the publisher's thread has published so many. */
    private void awaitPublished(KvEventPublisher publisher, int batches) {
        while (publisher.published() < batches) {
            replay(publisher, 0);
        }
    }

    @Test
    void aSubscriberReceivesTopicNumberAndBatch() {
        try (KvEventPublisher publisher = publisher(100, 100).start()) {
            ZMQ.Socket subscriber = context.createSocket(SocketType.SUB);
            subscriber.subscribe("kv@");
            subscriber.setReceiveTimeOut(20);
            subscriber.connect(publisher.endpoint());
            long offered = 0;
            ZMsg message = null;
            while (message == null) { // what is sent before the subscription arrives is not received
                publisher.offer(batch(offered++));
                message = ZMsg.recvMsg(subscriber);
            }
            assertThat(message).hasSize(3);
            assertThat(message.popString()).isEqualTo("kv@here");
            long first = number(message.pop().getData());
            assertThat(message.pop().getData()).isEqualTo(payload(first));
            subscriber.setReceiveTimeOut(-1);
            publisher.offer(batch(offered));
            for (long next = first + 1; next <= offered; next++) {
                message = ZMsg.recvMsg(subscriber);
                message.pop();
                assertThat(number(message.pop().getData())).isEqualTo(next);
                assertThat(message.pop().getData()).isEqualTo(payload(next));
            }
        }
    }

    @Test
    void pastBatchesAreSentAgain() {
        try (KvEventPublisher publisher = publisher(3, 100).start()) {
            for (int i = 0; i < 5; i++) {
                publisher.offer(batch(i));
            }
            awaitPublished(publisher, 5);
            assertThat(numbers(publisher, 0)).as("three are kept").containsExactly(2L, 3L, 4L);
            assertThat(replay(publisher, 3))
                    .first()
                    .satisfies(answer -> assertThat(answer.payload()).isEqualTo(payload(3)));
            assertThat(numbers(publisher, 3)).containsExactly(3L, 4L);
            assertThat(numbers(publisher, 9)).isEmpty();
        }
    }

    @Test
    void aRequestOfOtherFramesIsNotAnswered() {
        try (KvEventPublisher publisher = publisher(3, 100).start()) {
            ZMQ.Socket wrong = context.createSocket(SocketType.DEALER);
            wrong.connect(publisher.replayEndpoint());
            wrong.send("from the start".getBytes(StandardCharsets.UTF_8));
            wrong.sendMore(new byte[0]);
            wrong.send(new byte[3]);
            publisher.offer(batch(0));
            awaitPublished(publisher, 1);
            assertThat(numbers(publisher, 0)).containsExactly(0L);
        }
    }

    @Test
    void aFullQueueDropsBatchesAndTheirNumbers() {
        List<String> lines = new ArrayList<>();
        Logger logger = Logger.getLogger(KvEventPublisher.class.getName());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                lines.add(new java.util.logging.SimpleFormatter().formatMessage(record));
            }

            @Override
            public void flush() {}

            @Override
            public void close() {}
        };
        logger.addHandler(handler);
        try (KvEventPublisher publisher = publisher(100, 2)) {
            for (int i = 0; i < 5; i++) {
                publisher.offer(batch(i));
            }
            assertThat(publisher.dropped()).isEqualTo(3);
            publisher.start();
            awaitPublished(publisher, 2);
            publisher.offer(batch(5));
            awaitPublished(publisher, 3);
            assertThat(numbers(publisher, 0)).containsExactly(0L, 1L, 5L);
        } finally {
            logger.removeHandler(handler);
        }
        assertThat(lines).singleElement().asString().startsWith("3 batches of KV events were dropped");
    }

    @Test
    void whatIsQueuedIsPublishedBeforeTheEnd() {
        KvEventPublisher publisher = publisher(100, 100).start();
        for (int i = 0; i < 50; i++) {
            publisher.offer(batch(i));
        }
        publisher.close();
        assertThat(publisher.published()).isEqualTo(50);
        publisher.offer(batch(50));
        assertThat(publisher.dropped()).isEqualTo(1);
    }

    @Test
    void aTakenPortIsNamed() {
        try (KvEventPublisher first = publisher(1, 1)) {
            String taken = first.replayEndpoint();
            KvEventsConfig config = new KvEventsConfig(LOOPBACK, Optional.of(taken), 1, 1, 1, "");
            assertThatThrownBy(() -> new KvEventPublisher(config, clock, time))
                    .isInstanceOf(ConfigurationException.class)
                    .hasMessageContaining("\"replay_endpoint\": \"" + taken + "\"");
        }
    }
}
