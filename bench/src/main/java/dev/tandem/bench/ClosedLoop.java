package dev.tandem.bench;

import dev.tandem.bench.Workload.Lengths;
import dev.tandem.engine.request.TokenEvent;
import dev.tandem.engine.request.TokenSink;
import java.util.Iterator;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/**
 * Submits the requests of a closed loop: a whole one in place of each that ends, and more while few wait.
 *
 * <p>The loop grows to a number of requests, but no faster than the engine starts them: it adds requests while fewer
 * than {@link #WAITING} have no token yet. The first are in progress ({@link Workload#inProgress}), because they take
 * the places of requests that a stationary load would have there. If all were added at once and the engine ran few of
 * them, those in progress would wait for minutes, and all requests of the window would be short. Requests that it adds
 * after the warm-up are whole: those in progress have long prompts, which would fill the window.
 *
 * <p>Thread-safe.
 */
final class ClosedLoop {
    /**
     * Requests without a token from which on none is added. Above the 64 from which {@code adaptive} uses the host (ADR
     * 45), with room for the prompts of a step. On an H100 with 16 multiprocessors, 514 requests in progress lasted 120
     * s, and 96 last 35 s (docs/performance/method.md).
     */
    static final int WAITING = 96;

    private final Workload workload;
    private final int count;
    private final Iterator<Lengths> inProgress;
    private final BiConsumer<Lengths, TokenSink> submission;
    private final Predicate<String> goesOn;
    private int grown;
    private int whole;
    private int waiting;
    private boolean warm;
    private boolean stopped;

    /**
     * A loop that has submitted nothing.
     *
     * @param seed of the requests in progress
     * @param submission submits a request to the engine; called from the engine's thread too
     * @param goesOn takes the message of each request that failed, and says whether the loop goes on
     */
    ClosedLoop(
            Workload workload,
            FirstRequests first,
            long seed,
            BiConsumer<Lengths, TokenSink> submission,
            Predicate<String> goesOn) {
        this.workload = workload;
        this.count = first.count();
        this.inProgress = workload.inProgress(first.inProgress(), seed).iterator();
        this.submission = submission;
        this.goesOn = goesOn;
    }

    /** Submits requests until enough wait or the loop is full. */
    void grow() {
        for (Optional<Lengths> next = growth(); next.isPresent(); next = growth()) {
            submission.accept(next.get(), new Requester());
        }
    }

    /** Ends the warm-up: requests that the loop adds from now on are whole. */
    synchronized void warmedUp() {
        warm = true;
    }

    /** Ends the loop: nothing is submitted any more. */
    synchronized void stop() {
        stopped = true;
    }

    private synchronized Optional<Lengths> growth() {
        if (stopped || waiting >= WAITING || grown == count) {
            return Optional.empty();
        }
        grown++;
        waiting++;
        return Optional.of(!warm && inProgress.hasNext() ? inProgress.next() : workload.request(whole++));
    }

    private synchronized Optional<Lengths> replacement() {
        if (stopped) {
            return Optional.empty();
        }
        waiting++;
        return Optional.of(workload.request(whole++));
    }

    private synchronized void started() {
        waiting--;
    }

    /** Receives the tokens of one request. Owned by: the engine's thread. */
    private final class Requester implements TokenSink {
        private boolean hasToken;

        @Override
        public void on(TokenEvent event) {
            if (!hasToken) {
                hasToken = true; // or it failed while it waited
                started();
                grow();
            }
            switch (event) {
                case TokenEvent.Token token -> {}
                case TokenEvent.Finished finished -> replace();
                case TokenEvent.Failed failed -> {
                    if (!goesOn.test(failed.message())) {
                        stop();
                    }
                    replace();
                }
            }
        }

        private void replace() {
            replacement().ifPresent(next -> submission.accept(next, new Requester()));
        }
    }
}
