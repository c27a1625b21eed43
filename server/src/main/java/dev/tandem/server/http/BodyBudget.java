package dev.tandem.server.http;

import java.util.concurrent.atomic.AtomicLong;

/**
 * A limit on the memory for request bodies of all connections.
 *
 * <p>Owned by: thread-safe.
 */
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

    /** Takes the bytes; returns false and takes nothing when fewer are free. */
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
