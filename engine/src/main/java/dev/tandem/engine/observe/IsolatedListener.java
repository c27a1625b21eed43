package dev.tandem.engine.observe;

import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;

/**
 * Passes on what it is told, and lets no failure of the other listener reach the engine: requests must not pay for
 * their observer. The first failure is logged, then the 10th, the 100th and so on, because each step may have one.
 *
 * <p>Owned by: engine thread.
 */
public final class IsolatedListener implements EngineListener {
    private static final Logger LOG = System.getLogger(IsolatedListener.class.getName());

    private final EngineListener listener;
    private long failures;
    private long nextLogged = 1;

    public IsolatedListener(EngineListener listener) {
        this.listener = listener;
    }

    /** Calls of the listener that failed. */
    public long failures() {
        return failures;
    }

    private void process(Runnable event) {
        try {
            event.run();
        } catch (RuntimeException | Error e) {
            if (++failures == nextLogged) {
                nextLogged *= 10;
                LOG.log(
                        Level.ERROR,
                        "an engine listener failed, " + failures + " times so far; what it counts is incomplete",
                        e);
            }
        }
    }

    @Override
    public void step(StepRecord record) {
        process(() -> listener.step(record));
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        process(() -> listener.firstToken(request, sinceArrival));
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        process(() -> listener.nextToken(request, sincePrevious));
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        process(() -> listener.finished(request, reason, usage));
    }

    @Override
    public void failed(Request request) {
        process(() -> listener.failed(request));
    }

    @Override
    public void comparedWithGpu(double difference) {
        process(() -> listener.comparedWithGpu(difference));
    }

    @Override
    public void comparisonDropped() {
        process(listener::comparisonDropped);
    }
}
