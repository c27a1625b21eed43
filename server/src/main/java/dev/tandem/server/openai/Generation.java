package dev.tandem.server.openai;

import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import dev.tandem.server.http.Exchange;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.IntStream;

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
    private final List<Request> requests;
    private final BlockingQueue<Event> events;
    private final Deadline deadline;
    private int running;
    private boolean expired;

    private Generation(Engine engine, List<Request> requests, BlockingQueue<Event> events, Deadline deadline) {
        this.deadline = deadline;
        this.engine = engine;
        this.requests = requests;
        this.events = events;
        this.running = requests.size();
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
        Generation generation = start(engine, count, deadline, maker);
        exchange.onDisconnect(generation::cancel);
        return generation;
    }

    /** Submits {@code count} requests that do not end when a client disconnects. */
    static Generation start(Engine engine, int count, Deadline deadline, RequestMaker maker) {
        BlockingQueue<Event> events = new LinkedBlockingQueue<>();
        IntFunction<Request> make = index -> maker.make(index, event -> events.add(new Event(index, event)));
        List<Request> requests = IntStream.range(0, count).mapToObj(make).toList();
        Generation generation = new Generation(engine, requests, events, deadline);
        engine.submit(requests);
        return generation;
    }

    /** Ends all choices; each still sends its last event. */
    void cancel() {
        requests.forEach(request -> engine.cancel(request.id()));
    }

    /** Whether choices are still being generated. */
    boolean isRunning() {
        return running > 0;
    }

    /** Waits for the next event of any choice; a failure of all when the deadline passes first. */
    Event next() throws InterruptedException {
        Event event = deadline.exists() ? events.poll(deadline.remainingNanos(), TimeUnit.NANOSECONDS) : events.take();
        if (event == null) {
            expired = true;
            return new Event(0, new TokenEvent.Failed(deadline.message())); // close() cancels what still runs
        }
        switch (event.event()) {
            case TokenEvent.Token token -> {}
            case TokenEvent.Finished finished -> running--;
            case TokenEvent.Failed failed -> running--;
        }
        return event;
    }

    /** HTTP status for a {@link TokenEvent.Failed}. */
    int failureStatus() {
        return expired ? 408 : 500;
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
