package dev.tandem.server.http;

import java.util.concurrent.atomic.AtomicLong;

/** Memory for the request bodies of all connections. Thread-safe. */
final class BodyBudget {
    private final long limit;
    private final AtomicLong used = new AtomicLong();

    BodyBudget(long limit) {
        this.limit = limit;
    }

    long limit() {
        return limit;
    }

    long used() {
        return used.get();
    }

    /** False, and nothing taken, when so many bytes are not left. */
    boolean take(int bytes) {
        if (used.addAndGet(bytes) > limit) {
            used.addAndGet(-bytes);
            return false;
        }
        return true;
    }

    void release(int bytes) {
        used.addAndGet(-bytes);
    }
}
