package dev.tandem.fetch;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Closes a response that stalls, so that its reader fails and does not wait forever. In each period at least
 * {@link #MIN_BYTES} must arrive.
 *
 * <p>Owned by: the thread that reads; its own timer thread closes the response.
 */
public final class StallWatch implements AutoCloseable {
    /** 0.3 KiB/s over a minute; a slower download is not worth waiting for. */
    public static final long MIN_BYTES = 16 << 10;

    private final AtomicLong bytes = new AtomicLong();
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(
            Thread.ofPlatform().daemon().name("stall-watch").factory());
    private final InputStream body;
    private long bytesBefore;
    private volatile boolean stalled;

    public StallWatch(InputStream body, Duration period) {
        this.body = body;
        timer.scheduleAtFixedRate(this::check, period.toNanos(), period.toNanos(), TimeUnit.NANOSECONDS);
    }

    private void check() {
        long now = bytes.get();
        if (now - bytesBefore < MIN_BYTES) {
            stalled = true;
            try {
                body.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e); // the reader fails too, and reports it
            }
        }
        bytesBefore = now;
    }

    public void read(int count) {
        bytes.addAndGet(count);
    }

    public boolean stalled() {
        return stalled;
    }

    @Override
    public void close() {
        timer.shutdownNow();
    }
}
