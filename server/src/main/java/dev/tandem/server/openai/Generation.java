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
    private int running;

    private Generation(Engine engine, List<Request> requests, BlockingQueue<Event> events) {
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
    static Generation start(Engine engine, Exchange exchange, int count, RequestMaker maker) {
        BlockingQueue<Event> events = new LinkedBlockingQueue<>();
        IntFunction<Request> make = index -> maker.make(index, event -> events.add(new Event(index, event)));
        List<Request> requests = IntStream.range(0, count).mapToObj(make).toList();
        Generation generation = new Generation(engine, requests, events);
        engine.submit(requests);
        exchange.onDisconnect(generation::cancel);
        return generation;
    }

    private void cancel() {
        requests.forEach(request -> engine.cancel(request.id()));
    }

    /** Whether choices are still being generated. */
    boolean isRunning() {
        return running > 0;
    }

    /** Waits for the next event of any choice. */
    Event next() throws InterruptedException {
        Event event = events.take();
        switch (event.event()) {
            case TokenEvent.Token token -> {}
            case TokenEvent.Finished finished -> running--;
            case TokenEvent.Failed failed -> running--;
        }
        return event;
    }

    @Override
    public void close() {
        if (running > 0) {
            cancel();
        }
    }
}
