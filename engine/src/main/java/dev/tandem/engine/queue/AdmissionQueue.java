package dev.tandem.engine.queue;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.sampling.Adjustments;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Where requests and cancellations enter, from any thread. At most {@code capacity} requests wait, those that the
 * engine has taken over but not started included; more are refused at once rather than queued for ever.
 */
public final class AdmissionQueue {
    private final int capacity;
    private final Clock clock;
    private final Queue<EngineCommand> commands = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private volatile boolean closed;

    public AdmissionQueue(int capacity, Clock clock) {
        this.capacity = capacity;
        this.clock = clock;
    }

    /**
     * Takes all of the requests or none.
     *
     * @throws RequestException overloaded when they do not fit, unavailable when the server drains
     */
    public void offer(List<Request> requests) {
        List<Adjustments> adjustments = requests.stream().map(Adjustments::of).toList();
        offer(requests, adjustments);
    }

    private synchronized void offer(List<Request> requests, List<Adjustments> adjustments) {
        refuseWhenClosed();
        int now = waiting.addAndGet(requests.size());
        if (now > capacity) {
            waiting.addAndGet(-requests.size());
            throw RequestException.of(
                    RequestException.Category.OVERLOADED,
                    (now - requests.size()) + " requests are waiting and the queue holds " + capacity
                            + "; try again later, or raise --max-queued-requests");
        }
        long arrived = clock.nanos();
        for (int i = 0; i < requests.size(); i++) {
            commands.add(new EngineCommand.Submit(requests.get(i), adjustments.get(i), arrived));
        }
    }

    /**
     * Takes a request of the engine's own. It does not count as waiting, so that clients have the queue for themselves;
     * whoever offers bounds how many there are.
     *
     * @throws RequestException unavailable when the server drains
     */
    public synchronized void offerOwn(Request request) {
        refuseWhenClosed();
        commands.add(new EngineCommand.Submit(request, Adjustments.of(request), clock.nanos()));
    }

    private void refuseWhenClosed() {
        if (closed) {
            throw RequestException.of(
                    RequestException.Category.UNAVAILABLE, "the server is shutting down and takes no new requests");
        }
    }

    /** Asks for the request's end; unknown and finished ids are ignored. */
    public void cancel(String requestId) {
        commands.add(new EngineCommand.Cancel(requestId));
    }

    /** Refuses new requests from now on: once it returns, no further request enters. */
    public synchronized void close() {
        closed = true;
    }

    public boolean isClosed() {
        return closed;
    }

    public int waiting() {
        return waiting.get();
    }

    public boolean hasCommands() {
        return !commands.isEmpty();
    }

    /** Messages that are there now; counts them one by one. */
    public int commands() {
        return commands.size();
    }

    /** The next message, or null when there is none. Engine thread only. */
    public EngineCommand poll() {
        return commands.poll();
    }

    /** A client's request stopped waiting: it was started, cancelled or refused. Engine thread only. */
    public void left() {
        waiting.decrementAndGet();
    }
}
