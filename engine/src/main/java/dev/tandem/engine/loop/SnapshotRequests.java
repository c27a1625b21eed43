package dev.tandem.engine.loop;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.observe.RequestSnapshot;
import dev.tandem.engine.schedule.SchedulerState;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * Passes snapshots of the live requests from the engine thread to other threads, which ask for them. While nobody asks,
 * the engine thread reads one field per turn and allocates nothing.
 *
 * <p>Owned by: any thread asks; the engine thread answers.
 */
final class SnapshotRequests {
    /** Age up to which a snapshot answers again: the engine thread takes ten per second, however many ask. */
    static final long MAX_AGE_NANOS = 100_000_000;

    private final Clock clock;
    private final AtomicReference<@Nullable CompletableFuture<RequestSnapshot>> asked = new AtomicReference<>();
    private volatile RequestSnapshot last;

    SnapshotRequests(Clock clock) {
        this.clock = clock;
        this.last = RequestSnapshot.empty(clock.nanos() - MAX_AGE_NANOS);
    }

    /** A snapshot of the next turn, or the last one if it is recent. */
    CompletionStage<RequestSnapshot> ask() {
        RequestSnapshot recent = last;
        if (clock.nanos() - recent.nanos() < MAX_AGE_NANOS) {
            return CompletableFuture.completedStage(recent);
        }
        CompletableFuture<RequestSnapshot> mine = new CompletableFuture<>();
        CompletableFuture<RequestSnapshot> before = asked.compareAndExchange(null, mine);
        return before == null ? mine : before;
    }

    /** The last snapshot. */
    RequestSnapshot last() {
        return last;
    }

    /** Answers those who ask. Engine thread only. */
    void answer(SchedulerState state) {
        if (asked.get() == null) {
            return;
        }
        RequestSnapshot snapshot = RequestSnapshot.of(state, clock.nanos());
        last = snapshot;
        CompletableFuture<RequestSnapshot> waiting = asked.getAndSet(null);
        if (waiting != null) {
            waiting.complete(snapshot);
        }
    }
}
