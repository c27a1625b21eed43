package dev.tandem.server.kvevents;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.KvEvent;
import dev.tandem.engine.kv.KvEventSink;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;
import org.zeromq.ZMsg;

/**
 * Publishes batches of KV events to subscribers, and sends past ones again to those who ask.
 *
 * <p>A message of the PUB socket has three frames: the topic, the batch's number in 8 bytes, and the batch. A request
 * to the ROUTER socket is the number from which on batches are wanted; the answers have the frames number and batch,
 * and the last one the number -1 and an empty batch.
 *
 * <p>The engine thread numbers batches and puts them into a bounded queue. When the queue is full, a batch is dropped
 * and its number is skipped, so that subscribers see the gap.
 *
 * <p>Owned by: the publisher's thread owns the sockets and the past batches; the engine thread calls {@link #offer}.
 */
public final class KvEventPublisher implements KvEventSink, AutoCloseable {
    private static final Logger LOG = System.getLogger(KvEventPublisher.class.getName());
    /** How long the thread waits for a batch before it looks for requests; so it bounds their waiting time. */
    private static final Duration WAIT = Duration.ofMillis(100);
    /** Max time in which subscribers may fetch the last batches once the server ends; vLLM has the same. */
    private static final Duration LINGER = Duration.ofSeconds(1);
    /** Min time between two log lines about failures, because each step may have one. */
    private static final Duration LOG_INTERVAL = Duration.ofMinutes(1);

    private static final byte[] END = number(-1);

    private record Batch(long number, double seconds, List<KvEvent> events) {}

    private record Past(long number, byte[] payload) {}

    private final KvEventsConfig config;
    private final Clock clock;
    private final InstantSource time;
    private final BlockingQueue<Batch> queue;
    private final ZContext context = new ZContext();
    private final ZMQ.Socket publisher;
    private final ZMQ.@Nullable Socket replay;
    private final byte[] topic;
    private final Deque<Past> past = new ArrayDeque<>();
    private final AtomicLong published = new AtomicLong();
    private final AtomicLong dropped = new AtomicLong();
    private final Thread thread;
    private volatile boolean stopping;
    /** Of the next batch; of the engine thread. */
    private long number;

    private long droppedLogged;
    private long nextLogNanos;

    /**
     * Opens the sockets; {@link #start} starts the thread.
     *
     * @throws ConfigurationException when an endpoint cannot be used
     */
    public KvEventPublisher(KvEventsConfig config, Clock clock, InstantSource time) {
        this.config = config;
        this.clock = clock;
        this.time = time;
        this.queue = new LinkedBlockingQueue<>(config.maxQueueSize());
        this.topic = config.topic().getBytes(ZMQ.CHARSET);
        this.nextLogNanos = clock.nanos();
        context.setLinger((int) LINGER.toMillis());
        try {
            publisher = context.createSocket(SocketType.PUB);
            publisher.setSndHWM(config.highWaterMark());
            open(publisher, "endpoint", config.endpoint(), isBound(config.endpoint()));
            if (config.replayEndpoint().isPresent()) {
                replay = context.createSocket(SocketType.ROUTER);
                replay.setSndHWM(config.bufferSteps() + 1); // the answers to one request
                open(replay, "replay_endpoint", config.replayEndpoint().get(), true);
            } else {
                replay = null;
            }
        } catch (RuntimeException e) {
            context.close();
            throw e;
        }
        this.thread = Thread.ofPlatform().daemon().name("tandem-kv-events").unstarted(this::run);
    }

    private static boolean isBound(String endpoint) {
        return endpoint.contains("*") || endpoint.contains("::");
    }

    private static void open(ZMQ.Socket socket, String field, String endpoint, boolean bind) {
        try {
            if (bind ? socket.bind(endpoint) : socket.connect(endpoint)) {
                return;
            }
        } catch (ZMQException | IllegalArgumentException e) {
            throw new ConfigurationException(unusable(field, endpoint) + " (" + e.getMessage() + ")", e);
        }
        throw new ConfigurationException(unusable(field, endpoint));
    }

    private static String unusable(String field, String endpoint) {
        return "--kv-events-config has \"" + field + "\": \"" + endpoint
                + "\", which cannot be used; name a free port and an address of this machine";
    }

    /** Starts the thread. */
    public KvEventPublisher start() {
        thread.start();
        return this;
    }

    /** Where subscribers connect to, with the real port. */
    String endpoint() {
        return publisher.getLastEndpoint();
    }

    /** Where requests for past batches go, with the real port. */
    String replayEndpoint() {
        if (replay == null) {
            throw new IllegalStateException("this publisher sends nothing again");
        }
        return replay.getLastEndpoint();
    }

    /** Batches that were handed to subscribers so far. */
    public long published() {
        return published.get();
    }

    /** Batches that were dropped so far. */
    public long dropped() {
        return dropped.get();
    }

    @Override
    public void offer(List<KvEvent> events) {
        if (stopping || !queue.offer(new Batch(number++, time.millis() / 1e3, events))) {
            dropped.incrementAndGet();
        }
    }

    private void run() {
        try (context) {
            while (!stopping || !queue.isEmpty()) {
                Batch batch = queue.poll(WAIT.toNanos(), TimeUnit.NANOSECONDS);
                if (batch != null) {
                    publish(batch);
                }
                if (replay != null) {
                    answer(replay);
                }
                logDropped();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (RuntimeException | Error e) {
            LOG.log(Level.ERROR, "KV events are no longer published; restart the server to publish them again.", e);
            stopping = true;
            queue.clear();
        }
    }

    private void publish(Batch batch) {
        byte[] payload = KvEventEncoder.encode(batch.seconds(), batch.events());
        publisher.sendMore(topic);
        publisher.sendMore(number(batch.number()));
        publisher.send(payload);
        if (past.size() == config.bufferSteps()) {
            past.removeFirst();
        }
        past.addLast(new Past(batch.number(), payload));
        published.incrementAndGet();
    }

    /** Answers one request, if there is one: many of them must not delay new batches. */
    private void answer(ZMQ.Socket router) {
        ZMsg request = ZMsg.recvMsg(router, false);
        if (request == null || request.size() != 3 || request.peekLast().size() != Long.BYTES) {
            return; // who sends something else gets no answer
        }
        byte[] client = request.pop().getData();
        long from = ByteBuffer.wrap(request.peekLast().getData()).getLong();
        for (Past batch : past) {
            if (Long.compareUnsigned(batch.number(), from) >= 0) {
                answer(router, client, number(batch.number()), batch.payload());
            }
        }
        answer(router, client, END, new byte[0]);
    }

    private static void answer(ZMQ.Socket router, byte[] client, byte[] number, byte[] payload) {
        router.sendMore(client);
        router.sendMore(new byte[0]);
        router.sendMore(number);
        router.send(payload);
    }

    private void logDropped() {
        long count = dropped.get();
        if (count > droppedLogged && clock.nanos() >= nextLogNanos) {
            LOG.log(
                    Level.WARNING,
                    "{0} batches of KV events were dropped because {1} were waiting; routers know less of this"
                            + " server''s prefixes. Raise max_queue_size of --kv-events-config.",
                    count - droppedLogged,
                    config.maxQueueSize());
            droppedLogged = count;
            nextLogNanos = clock.nanos() + LOG_INTERVAL.toNanos();
        }
    }

    private static byte[] number(long value) {
        return ByteBuffer.allocate(Long.BYTES).putLong(value).array();
    }

    /** Publishes what is queued, then closes the sockets. */
    @Override
    public void close() {
        stopping = true;
        if (thread.getState() == Thread.State.NEW) {
            context.close();
            return;
        }
        boolean interrupted = false;
        while (true) {
            try {
                thread.join();
                break;
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
