package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.engine.request.TraceParent;
import dev.tandem.server.http.Exchange;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The engine requests of one HTTP request, one per choice, and their events in order of arrival. Requests that still
 * run are cancelled when the client disconnects or when this is closed.
 *
 * <p>Owned by: the request's virtual thread.
 */
final class Generation implements AutoCloseable {
    /** An event of the choice with this index. */
    record Event(int index, TokenEvent event) {}

    private final Engine engine;
    private final RequestMaker maker;
    private final BlockingQueue<Sent> events = new LinkedBlockingQueue<>();
    /** The choices' current requests; the event loop reads them when the client disconnects. */
    private final AtomicReferenceArray<Request> requests;

    private final Deadline deadline;
    /** The span that the requests are part of. */
    private final Optional<TraceParent> trace;

    private volatile boolean cancelled;
    /** How often each choice has been resumed. */
    private final int[] resumed;

    private int running;
    private boolean expired;
    /** Of a failure before the deadline; a request that goes on may be refused, as when the queue is full. */
    private int failureStatus = 500;

    /**
     * An event of a choice's request.
     *
     * @param resumed how often the choice had been resumed when the request was made
     */
    private record Sent(int index, int resumed, TokenEvent event) {}

    private Generation(Engine engine, int count, Deadline deadline, Optional<TraceParent> trace, RequestMaker maker) {
        this.trace = trace;
        this.deadline = deadline;
        this.engine = engine;
        this.maker = maker;
        this.requests = new AtomicReferenceArray<>(count);
        this.resumed = new int[count];
        this.running = count;
    }

    interface RequestMaker {
        Request make(int index, TokenSink sink);
    }

    /** Refuses with 400 more requests than even the empty queue holds, because trying again cannot help. */
    static void checkCount(Engine engine, int prompts, int n) {
        long requests = (long) prompts * n;
        int capacity = engine.config().maxQueuedRequests();
        if (requests > capacity) {
            throw RequestException.bad(
                    n > 1 ? "n" : "prompt",
                    prompts + " prompts with n = " + n + " are " + requests + " requests, and the queue holds "
                            + capacity
                            + "; send fewer, or raise --max-queued-requests");
        }
    }

    /** Submits {@code count} requests: either all or none are accepted. */
    static Generation start(Engine engine, Exchange exchange, int count, Deadline deadline, RequestMaker maker) {
        Generation generation = start(engine, count, deadline, exchange.trace(), maker);
        exchange.onDisconnect(generation::cancel);
        return generation;
    }

    /** Submits {@code count} requests that do not end when a client disconnects. */
    static Generation start(
            Engine engine, int count, Deadline deadline, Optional<TraceParent> trace, RequestMaker maker) {
        Generation generation = new Generation(engine, count, deadline, trace, maker);
        List<Request> requests =
                IntStream.range(0, count).mapToObj(generation::make).toList();
        engine.submit(requests);
        return generation;
    }

    private Request make(int index) {
        Request request = maker.make(index, event -> events.add(new Sent(index, 0, event)))
                .withTrace(trace);
        requests.set(index, request);
        return request;
    }

    /** Ends all choices; each still sends its last event. */
    void cancel() {
        cancelled = true;
        for (int i = 0; i < requests.length(); i++) {
            engine.cancel(requests.get(i).id());
        }
    }

    /**
     * Goes on with a choice after tokens that the model did not choose: a new request whose prompt ends with them.
     * Output after {@code produced} is dropped. A seeded choice draws from the start of its random stream again.
     *
     * @param produced the output tokens to keep
     * @param added the tokens to add to them
     * @return false when no token could follow them, so that the choice goes on as it is
     */
    boolean resume(int index, int[] produced, int[] added) {
        Request old = requests.get(index);
        int length = old.prompt().length + produced.length + added.length;
        OptionalInt max = old.sampling().maxTokens();
        if (length >= engine.config().contextTokens() || max.isPresent() && max.getAsInt() <= produced.length) {
            return false;
        }
        engine.cancel(old.id());
        String id = old.id() + "-resumed";
        int[] prompt = Stream.of(old.prompt(), produced, added)
                .flatMapToInt(IntStream::of)
                .toArray();
        int count = ++resumed[index];
        Request fresh = maker.make(index, event -> events.add(new Sent(index, count, event)));
        Request next = new Request(
                        id,
                        prompt,
                        old.sampling().after(produced.length),
                        old.priority(),
                        old.targets(),
                        fresh.decoder(),
                        fresh.sink())
                .withCaching(old.caching())
                .withTrace(trace);
        requests.set(index, next);
        try {
            engine.submit(next);
        } catch (RequestException e) {
            failureStatus = ApiErrors.status(e.category());
            events.add(new Sent(index, count, new TokenEvent.Failed(String.valueOf(e.getMessage()))));
        }
        if (cancelled) {
            engine.cancel(id); // the client disconnected meanwhile
        }
        return true;
    }

    /** Whether choices are still being generated. */
    boolean isRunning() {
        return running > 0;
    }

    /** Waits for the next event of any choice; a failure of all when the deadline passes first. */
    Event next() throws InterruptedException {
        Sent sent = take();
        while (sent != null && sent.resumed() < resumed[sent.index()]) {
            sent = take(); // the event before was of a request that has been replaced
        }
        if (sent == null) {
            expired = true;
            return new Event(0, new TokenEvent.Failed(deadline.message())); // close() cancels what still runs
        }
        switch (sent.event()) {
            case TokenEvent.Token token -> {}
            case TokenEvent.Finished finished -> running--;
            case TokenEvent.Failed failed -> running--;
        }
        return new Event(sent.index(), sent.event());
    }

    /** The next event of any request; null when the deadline passes first. */
    private @Nullable Sent take() throws InterruptedException {
        return deadline.exists() ? events.poll(deadline.remainingNanos(), TimeUnit.NANOSECONDS) : events.take();
    }

    /** HTTP status for a {@link TokenEvent.Failed}. */
    int failureStatus() {
        return expired ? 408 : failureStatus;
    }

    /** Answers with a failure; a client that set a timeout is told not to send the same request again. */
    void fail(Exchange exchange, ErrorFormat errors, String message) {
        if (expired) {
            exchange.responseHeader("x-should-retry", "false");
        }
        exchange.respond(
                failureStatus(),
                "application/json",
                errors.body(failureStatus(), message, expired ? "timeout" : "", exchange.requestId()));
    }

    @Override
    public void close() {
        if (running > 0) {
            cancel();
        }
    }
}
