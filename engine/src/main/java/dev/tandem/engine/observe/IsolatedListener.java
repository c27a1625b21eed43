package dev.tandem.engine.observe;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * Passes events to another listener and catches its exceptions, so that a faulty listener cannot end requests.
 *
 * <p>It logs the first failure, then the 10th, the 100th and so on, because every step may have one.
 *
 * <p>Owned by: engine thread.
 */
public final class IsolatedListener implements EngineListener {
    private static final Logger LOG = System.getLogger(IsolatedListener.class.getName());

    private final EngineListener listener;
    private long failures;
    private long nextLogged = 1;

    /** Creates a listener that passes events to {@code listener}. */
    public IsolatedListener(EngineListener listener) {
        this.listener = listener;
    }

    /** Calls that failed so far. */
    public long failures() {
        return failures;
    }

    private void isolate(Runnable event) {
        try {
            event.run();
        } catch (RuntimeException | Error e) {
            if (++failures == nextLogged) {
                nextLogged *= 10;
                LOG.log(
                        Level.ERROR,
                        "An engine listener failed, " + failures + " times so far; its metrics are incomplete.",
                        e);
            }
        }
    }

    @Override
    public void step(StepRecord record) {
        isolate(() -> listener.step(record));
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        isolate(() -> listener.firstToken(request, sinceArrival));
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        isolate(() -> listener.nextToken(request, sincePrevious));
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        isolate(() -> listener.finished(request, reason, usage));
    }

    @Override
    public void failed(Request request, String message) {
        isolate(() -> listener.failed(request, message));
    }

    @Override
    public void comparedWithGpu(double difference) {
        isolate(() -> listener.comparedWithGpu(difference));
    }

    @Override
    public void comparisonDropped() {
        isolate(listener::comparisonDropped);
    }
}
