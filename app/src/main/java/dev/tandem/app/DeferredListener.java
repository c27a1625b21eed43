package dev.tandem.app;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Passes the engine's events to listeners that can only be made after the engine has started.
 *
 * <p>Owned by: thread-safe.
 */
final class DeferredListener implements EngineListener {
    private final List<EngineListener> targets = new CopyOnWriteArrayList<>();

    void attach(EngineListener listener) {
        targets.add(listener);
    }

    void detach(EngineListener listener) {
        targets.remove(listener);
    }

    @Override
    public void step(StepRecord record) {
        for (EngineListener target : targets) {
            target.step(record);
        }
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        for (EngineListener target : targets) {
            target.firstToken(request, sinceArrival);
        }
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        for (EngineListener target : targets) {
            target.nextToken(request, sincePrevious);
        }
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        for (EngineListener target : targets) {
            target.finished(request, reason, usage);
        }
    }

    @Override
    public void failed(Request request, String message) {
        for (EngineListener target : targets) {
            target.failed(request, message);
        }
    }

    @Override
    public void comparedWithGpu(double difference) {
        for (EngineListener target : targets) {
            target.comparedWithGpu(difference);
        }
    }

    @Override
    public void comparisonDropped() {
        for (EngineListener target : targets) {
            target.comparisonDropped();
        }
    }
}
