package dev.tandem.server;

import dev.tandem.server.http.Exchange;
import dev.tandem.server.http.RequestHead;
import dev.tandem.server.http.Response;
import dev.tandem.server.http.Router;
import dev.tandem.server.openai.ApiErrors;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalDouble;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/**
 * Answers 503 until the model is loaded, then passes requests to the model's router and counts those in progress. Load
 * balancers read a 503 from /health as "not ready yet".
 *
 * <p>Owned by: any thread; the lock guards the count.
 */
final class LoadingRouter implements Router {
    private static final String RETRY_AFTER_SECONDS = "5";

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition requestEnded = lock.newCondition();
    private volatile @Nullable Router loaded;
    private volatile ApiErrors.Loading state = new ApiErrors.Loading("", OptionalDouble.empty());
    private int inProgress;

    /** From now on, answers say that this work is done so far; a total of 0 is unknown. */
    void loading(String work, long done, long total) {
        state = new ApiErrors.Loading(
                work, total > 0 ? OptionalDouble.of((double) done / total) : OptionalDouble.empty());
    }

    /** From now on, requests go to this router. */
    void loaded(Router router) {
        loaded = router;
    }

    @Override
    public Decision decide(RequestHead head) {
        Router router = loaded;
        if (router != null) {
            return router.decide(head);
        }
        return new Decision.Answer(new Response(
                503, "application/json", ApiErrors.body(state), Map.of("Retry-After", RETRY_AFTER_SECONDS)));
    }

    @Override
    public void serve(Exchange exchange) throws InterruptedException {
        Router router = Objects.requireNonNull(loaded, "a request was served before the model was loaded");
        count(1);
        try {
            router.serve(exchange);
        } finally {
            count(-1);
        }
    }

    private void count(int change) {
        lock.lock();
        try {
            inProgress += change;
            requestEnded.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits until no request is in progress; returns false when the limit passes first. */
    boolean awaitAnswers(Duration limit) throws InterruptedException {
        lock.lock();
        try {
            long left = limit.toNanos();
            while (inProgress > 0 && left > 0) {
                left = requestEnded.awaitNanos(left);
            }
            return inProgress == 0;
        } finally {
            lock.unlock();
        }
    }
}
