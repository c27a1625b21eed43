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

    /**
     * Takes the bytes. When fewer are free, it takes nothing, gives back what the body holds, and returns false. Both
     * are one atomic change: of two bodies that arrive at once and are too large together, only one is refused.
     *
     * @param held bytes of the same body that were taken before
     */
    boolean take(int bytes, int held) {
        long before = used.getAndUpdate(now -> now + bytes > limit ? now - held : now + bytes);
        return before + bytes <= limit;
    }

    void release(int bytes) {
        used.addAndGet(-bytes);
    }
}
