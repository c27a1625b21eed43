package dev.tandem.server.trace;

import java.io.IOException;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends spans to a collector by OTLP/HTTP in JSON. Whoever adds a span never waits: spans for which the queue has no
 * room are dropped and counted, as are those that the collector does not take.
 *
 * <p>Owned by: thread-safe; its own thread sends. The caller closes it.
 */
public final class SpanExporter implements AutoCloseable {
    private static final Logger LOG = System.getLogger(SpanExporter.class.getName());
    /** Defaults of OpenTelemetry's batch processor: spans that wait, and spans per post. Not tuned. */
    private static final int MAX_QUEUED = 2048;

    private static final int MAX_BATCH = 512;
    /** Max time of a post, as OpenTelemetry's exporters have it. */
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    /** Posts of one batch; with the delays between them a collector has about 15 seconds to come back. */
    private static final int MAX_ATTEMPTS = 5;
    /** Longer waits that a collector asks for are cut, because spans queue up meanwhile. */
    private static final int MAX_RETRY_AFTER_SECONDS = 30;
    /** Answers after which OTLP allows another attempt. */
    private static final Set<Integer> RETRYABLE = Set.of(429, 502, 503, 504);
    /** Max time that {@link #close} waits for the last spans. */
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(2);

    /**
     * How long the exporter waits.
     *
     * @param batch time in which spans are gathered for one post
     * @param retry before the second attempt; each further one waits twice as long
     */
    record Delays(Duration batch, Duration retry) {
        static final Delays DEFAULT = new Delays(Duration.ofSeconds(1), Duration.ofSeconds(1));
    }

    private final OtlpSettings settings;
    private final String version;
    private final Delays delays;
    private final HttpClient client;
    private final BlockingQueue<Span> queue = new ArrayBlockingQueue<>(MAX_QUEUED);
    private final AtomicLong dropped = new AtomicLong();
    private final CountDownLatch closing = new CountDownLatch(1);
    private final Thread thread;
    private long failures;
    private long nextLogged = 1;

    /** Starts the thread that sends. */
    public SpanExporter(OtlpSettings settings, String version) {
        this(settings, version, Delays.DEFAULT);
    }

    SpanExporter(OtlpSettings settings, String version, Delays delays) {
        this.settings = settings;
        this.version = version;
        this.delays = delays;
        this.client = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(TIMEOUT)
                .build();
        this.thread = Thread.ofPlatform().daemon().name("trace-exporter").start(this::run);
    }

    /** Queues a span; drops it when the queue is full. */
    void add(Span span) {
        if (!queue.offer(span)) {
            dropped.incrementAndGet();
        }
    }

    /** Spans that no collector has got, for want of room or because sending failed. */
    public long dropped() {
        return dropped.get();
    }

    private void run() {
        try {
            while (true) {
                boolean last = closing.getCount() == 0; // read before the queue: what was added by then is sent
                List<Span> batch = next();
                if (!batch.isEmpty()) {
                    send(batch);
                } else if (last) {
                    return;
                }
            }
        } catch (InterruptedException e) {
            dropped.addAndGet(queue.size()); // close() has waited long enough
        }
    }

    /** The next spans; none after a while without any. */
    private List<Span> next() throws InterruptedException {
        List<Span> batch = new ArrayList<>();
        boolean ends = closing.getCount() == 0;
        Span first = ends ? queue.poll() : queue.poll(1, TimeUnit.SECONDS);
        if (first != null) {
            batch.add(first);
            if (queue.size() < MAX_BATCH - 1) {
                await(delays.batch());
            }
            queue.drainTo(batch, MAX_BATCH - 1);
        }
        return batch;
    }

    /** Waits, but not once the exporter is being closed. */
    private void await(Duration delay) throws InterruptedException {
        boolean ignored = closing.await(delay.toNanos(), TimeUnit.NANOSECONDS);
    }

    private void send(List<Span> batch) throws InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(settings.endpoint())
                .timeout(TIMEOUT)
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofByteArray(OtlpJson.request(batch, settings.resource(), version)));
        settings.headers().forEach(request::header);
        Duration delay = delays.retry();
        for (int attempt = 1; ; attempt++) {
            String failure;
            Duration wait = delay;
            try {
                HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() / 100 == 2) {
                    dropped.addAndGet(OtlpJson.rejected(answer.body()));
                    return;
                }
                failure = "it answered " + answer.statusCode();
                if (!RETRYABLE.contains(answer.statusCode())) {
                    attempt = MAX_ATTEMPTS;
                }
                wait = retryAfter(answer, delay);
            } catch (IOException e) {
                failure = e.toString();
            }
            if (attempt >= MAX_ATTEMPTS || closing.getCount() == 0) {
                lost(batch.size(), failure);
                return;
            }
            await(wait);
            delay = delay.multipliedBy(2);
        }
    }

    private static Duration retryAfter(HttpResponse<?> answer, Duration otherwise) {
        return answer.headers()
                .firstValue("Retry-After")
                .filter(text -> text.matches("\\d{1,6}"))
                .map(Integer::parseInt)
                .map(seconds -> Duration.ofSeconds(Math.min(seconds, MAX_RETRY_AFTER_SECONDS)))
                .orElse(otherwise);
    }

    /** Counts the spans and logs the first failure, then the 10th, the 100th and so on. */
    private void lost(int spans, String failure) {
        dropped.addAndGet(spans);
        if (++failures == nextLogged) {
            nextLogged *= 10;
            LOG.log(
                    Level.WARNING,
                    "Traces cannot be sent to {0}: {1}. {2} spans are lost so far; requests are served as before.",
                    settings.endpoint(),
                    failure,
                    Long.toString(dropped.get()));
        }
    }

    /** Sends what is queued, without further attempts, for at most two seconds. */
    @Override
    public void close() {
        closing.countDown();
        try {
            if (!thread.join(CLOSE_LIMIT)) {
                thread.interrupt();
            }
        } catch (InterruptedException e) {
            thread.interrupt();
            Thread.currentThread().interrupt();
        }
        client.shutdownNow();
    }
}
