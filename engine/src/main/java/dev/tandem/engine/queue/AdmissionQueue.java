package dev.tandem.engine.queue;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.RequestException;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * The entry for requests and cancellations from any thread.
 *
 * <p>At most {@code capacity} requests wait, those included that the engine has accepted and not started. Further ones
 * are refused at once.
 *
 * <p>Owned by: any thread; {@link #poll} and {@link #left} by the engine thread.
 */
public final class AdmissionQueue {
    private final int capacity;
    private final Clock clock;
    private final Queue<EngineCommand> commands = new ConcurrentLinkedQueue<>();
    private final AtomicInteger waiting = new AtomicInteger();
    private volatile boolean closed;

    /** Creates an empty queue. */
    public AdmissionQueue(int capacity, Clock clock) {
        this.capacity = capacity;
        this.clock = clock;
    }

    /**
     * Adds all of the requests or none.
     *
     * @throws RequestException overloaded when they do not fit, unavailable when the server drains
     */
    public void offer(List<Request> requests) {
        List<EngineCommand.Submit> submits = requests.stream()
                .map(request -> EngineCommand.Submit.of(request, 0))
                .toList();
        try {
            add(submits);
        } catch (RequestException e) {
            submits.forEach(EngineCommand.Submit::discard);
            throw e;
        }
    }

    private synchronized void add(List<EngineCommand.Submit> submits) {
        refuseWhenClosed();
        int now = waiting.addAndGet(submits.size());
        if (now > capacity) {
            waiting.addAndGet(-submits.size());
            throw RequestException.of(
                    RequestException.Category.OVERLOADED,
                    (now - submits.size()) + " requests are waiting and the queue holds " + capacity
                            + "; try again later, or raise --max-queued-requests");
        }
        long arrived = clock.nanos();
        submits.forEach(submit -> commands.add(submit.at(arrived)));
    }

    /**
     * Adds a request of the engine's own. It does not count as waiting, so that it takes no client's place; the caller
     * bounds the number of such requests.
     *
     * @throws RequestException unavailable when the server drains
     */
    public synchronized void offerInternal(Request request) {
        refuseWhenClosed();
        commands.add(EngineCommand.Submit.of(request, clock.nanos()));
    }

    private void refuseWhenClosed() {
        if (closed) {
            throw RequestException.of(
                    RequestException.Category.UNAVAILABLE, "the server is shutting down and takes no new requests");
        }
    }

    /** Asks the engine to end a request; an id that is unknown or has ended is ignored. */
    public void cancel(String requestId) {
        commands.add(new EngineCommand.Cancel(requestId));
    }

    /** Asks the engine to empty its prefix cache; requests that are offered later hit nothing computed before. */
    public void resetPrefixCache() {
        commands.add(new EngineCommand.ResetPrefixCache());
    }

    /** Refuses new requests; once this returns, no further request enters. */
    public synchronized void close() {
        closed = true;
    }

    /** True when new requests are refused. */
    public boolean isClosed() {
        return closed;
    }

    /** Clients' requests that have not started. */
    public int waiting() {
        return waiting.get();
    }

    /** True when a message can be polled. */
    public boolean hasCommands() {
        return !commands.isEmpty();
    }

    /** Messages that can be polled now. The cost is linear in their number. */
    public int commands() {
        return commands.size();
    }

    /** The next message, or null when there is none. Engine thread only. */
    public @Nullable EngineCommand poll() {
        return commands.poll();
    }

    /**
     * Records that a client's request stopped waiting: it started, was cancelled or was refused. Engine thread only.
     */
    public void left() {
        waiting.decrementAndGet();
    }
}
