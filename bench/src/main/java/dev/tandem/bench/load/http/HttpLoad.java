package dev.tandem.bench.load.http;

import dev.tandem.bench.load.Arrivals;
import dev.tandem.bench.load.Latencies;
import dev.tandem.bench.load.Load;
import dev.tandem.bench.load.LoadResult;
import dev.tandem.bench.load.Metric;
import dev.tandem.bench.load.RequestTimes;
import dev.tandem.engine.clock.Clock;
import java.io.IOException;
import java.net.ConnectException;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.PrimitiveIterator;
import java.util.PriorityQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Runs a load against a server over HTTP. One thread starts each request at its arrival, on a virtual thread of its
 * own, whatever the server does with the requests before it. A conversation's next turn arrives some time after the
 * answer to the one before.
 *
 * <p>Owned by: the thread that calls {@link #run}.
 */
public final class HttpLoad {
    /** Send delay at p99, in ms, up to which a run is valid whatever the server's latency. */
    private static final double HARMLESS_MILLIS = 1;

    /** Fraction of the median time to first token that the p99 send delay may reach before the client distorts it. */
    private static final double MAX_DELAY_FRACTION = 0.1;

    /** Time between two looks at whether requests may still arrive, while none is due. */
    private static final long MAX_WAIT_NANOS = 100_000_000;

    /** The error of requests whose answer, or whose connection, took too long. */
    private static final String TIMEOUT = "timeout";

    /** Receives progress: a number of requests that have arrived, and how many of them run. */
    public interface Progress {
        /** Called on the thread that runs the load, before each request. */
        void at(int arrived, int running);
    }

    /**
     * A run's result.
     *
     * @param requests all requests in order of arrival, measured or not
     * @param counted completed requests whose tokens the server did not report, so that pieces were counted
     * @param invalid why the figures are not the server's; empty when they are
     */
    public record Run(LoadResult result, List<RequestTimes> requests, int counted, Optional<String> invalid) {}

    private final OpenAiServer server;
    private final Clock clock;
    private final boolean usage;
    private final int maxConcurrency;

    /**
     * A load generator.
     *
     * @param usage whether requests ask the server for numbers of tokens
     * @param maxConcurrency max requests that run at a time; further ones wait, which counts as latency
     */
    public HttpLoad(OpenAiServer server, Clock clock, boolean usage, int maxConcurrency) {
        this.server = server;
        this.clock = clock;
        this.usage = usage;
        this.maxConcurrency = maxConcurrency;
    }

    /** Runs a load to its end: until all measured requests have ended, or their time is over. */
    public Run run(Load load, Conversations conversations, Progress progress) throws InterruptedException {
        return new Loop(load, conversations).run(progress);
    }

    /** A request to come: a conversation's turn, counted from 0. Its prompt is made before its arrival. */
    private record Turn(long arrival, int conversation, int number, Prompt prompt) {}

    /** One run. */
    private final class Loop {
        private final Load load;
        private final Conversations conversations;
        private final long origin = clock.nanos();
        private final Semaphore slots = new Semaphore(maxConcurrency, true);
        private final List<Sent> sent = new ArrayList<>();
        private final PrimitiveIterator.OfLong times;
        private int begun;

        private final ReentrantLock lock = new ReentrantLock();
        /** An answer has ended, and {@link #due} or {@link #unanswered} has changed. */
        private final Condition answered = lock.newCondition();
        /** Guarded by {@link #lock}. */
        private final PriorityQueue<Turn> due = new PriorityQueue<>(Comparator.comparingLong(Turn::arrival));
        /** Requests whose conversation may go on after their answer; guarded by {@link #lock}. */
        private int unanswered;

        Loop(Load load, Conversations conversations) {
            this.load = load;
            this.conversations = conversations;
            this.times = load.arrivals().times(load.seed());
        }

        private long now() {
            return clock.nanos() - origin;
        }

        Run run(Progress progress) throws InterruptedException {
            boolean closed = load.arrivals() instanceof Arrivals.AtOnce && maxConcurrency < Integer.MAX_VALUE;
            long last = 0;
            addConversation();
            for (Optional<Turn> next = awaitTurn(); next.isPresent(); next = awaitTurn()) {
                Turn turn = next.get();
                last = turn.arrival();
                start(turn, closed);
                if (turn.number() == 0) {
                    addConversation(); // after the start, which its prompt would delay
                }
                progress.at(sent.size(), maxConcurrency - slots.availablePermits());
            }
            await(last + load.window().drainNanos());
            return result();
        }

        /** Adds the first turn of the next conversation, if there is one. */
        private void addConversation() {
            if (times.hasNext()) {
                int conversation = begun++;
                Prompt prompt = conversations.first().apply(conversation);
                Turn turn = new Turn(times.nextLong(), conversation, 0, prompt);
                lock.lock();
                try {
                    due.add(turn);
                } finally {
                    lock.unlock();
                }
            }
        }

        /** Waits for the next arrival and takes it; empty when no more requests arrive. */
        private Optional<Turn> awaitTurn() throws InterruptedException {
            lock.lockInterruptibly();
            try {
                while (true) {
                    Turn next = due.peek();
                    long now = now();
                    if (next == null || !load.window().admits(next.arrival(), sent.size())) {
                        if (unanswered == 0 || !load.window().admits(now, sent.size())) {
                            return Optional.empty();
                        }
                        answered.awaitNanos(MAX_WAIT_NANOS); // an answer may bring an earlier arrival
                    } else if (next.arrival() > now) {
                        answered.awaitNanos(next.arrival() - now);
                    } else {
                        due.remove();
                        unanswered += goesOn(next) ? 1 : 0;
                        return Optional.of(next);
                    }
                }
            } finally {
                lock.unlock();
            }
        }

        private boolean goesOn(Turn turn) {
            return turn.number() + 1 < conversations.turns();
        }

        /** Starts a request at its arrival. Without a rate, its arrival is when a slot is free. */
        private void start(Turn turn, boolean closed) throws InterruptedException {
            if (closed) {
                slots.acquire();
            }
            RequestTimes request = new RequestTimes(
                    closed ? now() : turn.arrival(), turn.prompt().promptTokens());
            StreamReader reader = new StreamReader(request, clock, origin, goesOn(turn));
            Thread thread = Thread.ofVirtual().unstarted(() -> send(turn, request, reader, closed));
            sent.add(new Sent(request, reader, thread));
            thread.start();
        }

        private void send(Turn turn, RequestTimes request, StreamReader reader, boolean hasSlot) {
            try {
                request.ready(now());
                if (!hasSlot) {
                    slots.acquire();
                }
                try {
                    request.sent(now());
                    exchange(turn.prompt(), reader);
                } finally {
                    slots.release();
                }
                if (goesOn(turn)) {
                    answered(turn, request, reader.answer());
                }
            } catch (InterruptedException e) {
                reader.abandon(); // the run is over
            }
        }

        /** Has the next turn of a conversation arrive later; one without an answer has ended. */
        private void answered(Turn turn, RequestTimes request, String answer) {
            Optional<Turn> next = Optional.empty();
            if (request.outcome() instanceof RequestTimes.Outcome.Ended) {
                int number = turn.number() + 1;
                long arrival = now() + load.thinkNanos(turn.conversation(), number);
                Prompt prompt = conversations.next(turn.prompt(), answer, turn.conversation(), number);
                next = Optional.of(new Turn(arrival, turn.conversation(), number, prompt));
            }
            lock.lock();
            try {
                next.ifPresent(due::add);
                unanswered--;
                answered.signal();
            } finally {
                lock.unlock();
            }
        }

        private void exchange(Prompt prompt, StreamReader reader) throws InterruptedException {
            try {
                HttpResponse<String> response = server.send(
                        server.request(prompt, usage),
                        head -> {
                            boolean stream = head.statusCode() == 200
                                    && head.headers()
                                            .firstValue("Content-Type")
                                            .orElse("")
                                            .startsWith("text/event-stream");
                            return stream
                                    ? HttpResponse.BodySubscribers.mapping(reader, nothing -> "")
                                    : HttpResponse.BodySubscribers.ofString(StandardCharsets.UTF_8);
                        },
                        timeout -> reader.fail(TIMEOUT, StreamReader.reason(timeout)));
                // an answer that was streamed has ended by now, so that this records nothing
                if (response.statusCode() == 200) {
                    reader.fail("no event stream", OpenAiServer.quote(response.body()));
                } else {
                    reader.fail("HTTP " + response.statusCode(), OpenAiServer.quote(response.body()));
                }
            } catch (ConnectException e) {
                reader.fail("no connection", StreamReader.reason(e));
            } catch (HttpTimeoutException e) {
                reader.fail(TIMEOUT, StreamReader.reason(e));
            } catch (IOException e) {
                reader.fail("connection lost", StreamReader.reason(e));
            }
        }

        /** Waits for the measured requests, ends all others, and leaves no thread behind. */
        private void await(long deadline) throws InterruptedException {
            for (Sent one : sent) {
                if (load.window().measures(one.request.arrival())) {
                    long wait = deadline - now();
                    if (wait > 0) {
                        one.thread.join(Duration.ofNanos(wait));
                    }
                }
            }
            for (Sent one : sent) {
                one.reader.abandon();
                one.thread.interrupt();
            }
            for (Sent one : sent) {
                one.thread.join();
            }
        }

        private Run result() {
            List<RequestTimes> requests = sent.stream().map(one -> one.request).toList();
            LoadResult result = LoadResult.of(load, requests);
            int counted = (int) requests.stream()
                    .filter(request -> request.outcome() instanceof RequestTimes.Outcome.Ended && !request.isReported())
                    .count();
            return new Run(result, requests, counted, invalid(result));
        }
    }

    private record Sent(RequestTimes request, StreamReader reader, Thread thread) {}

    /** Why the client, and not the server, decided the latencies; empty when it did not. */
    private static Optional<String> invalid(LoadResult result) {
        double delay = result.sendDelay().percentile(99);
        Latencies first = result.latency(Metric.TTFT);
        double allowed = Math.max(HARMLESS_MILLIS, MAX_DELAY_FRACTION * first.percentile(50));
        return delay <= allowed
                ? Optional.empty()
                : Optional.of(String.format(
                        Locale.ROOT,
                        "the client was the bottleneck: p99 of its send delay is %.1f ms and may be %.1f; lower the"
                                + " rate, or run the client on a machine of its own",
                        delay,
                        allowed));
    }
}
