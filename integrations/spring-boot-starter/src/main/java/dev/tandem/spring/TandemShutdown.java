package dev.tandem.spring;

import dev.tandem.library.Tandem;
import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;

/**
 * Lets answers end when the application shuts down. It stops after the web server, which has then finished its
 * requests, and before any bean is destroyed.
 *
 * <p>Owned by: the thread that starts and stops the application.
 */
final class TandemShutdown implements SmartLifecycle {
    /** Below the phases of Spring Boot's web servers, which stop from the highest phase down. */
    static final int PHASE = SmartLifecycle.DEFAULT_PHASE - 4096;

    private static final Logger LOG = LoggerFactory.getLogger(TandemShutdown.class);

    private final Tandem tandem;
    private final Duration limit;
    private volatile boolean running;

    TandemShutdown(Tandem tandem, Duration limit) {
        this.tandem = tandem;
        this.limit = limit;
    }

    @Override
    public void start() {
        running = true;
    }

    @Override
    public void stop() {
        running = false;
        try {
            if (!tandem.drain(limit)) {
                LOG.warn("Some answers were still being written after {}; they fail now.", limit);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // closing the model fails what is left
        }
    }

    @Override
    public boolean isRunning() {
        return running;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }
}
