package dev.tandem.app;

import dev.tandem.engine.observe.EngineListener;
import dev.tandem.engine.observe.StepRecord;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.Usage;

/** Passes the engine's events to a listener that can only be made after the engine has started. */
final class DeferredListener implements EngineListener {
    private volatile EngineListener target = EngineListener.NONE;

    void attach(EngineListener listener) {
        target = listener;
    }

    @Override
    public void step(StepRecord record) {
        target.step(record);
    }

    @Override
    public void firstToken(Request request, long sinceArrival) {
        target.firstToken(request, sinceArrival);
    }

    @Override
    public void nextToken(Request request, long sincePrevious) {
        target.nextToken(request, sincePrevious);
    }

    @Override
    public void finished(Request request, FinishReason reason, Usage usage) {
        target.finished(request, reason, usage);
    }

    @Override
    public void failed(Request request, String message) {
        target.failed(request, message);
    }

    @Override
    public void comparedWithGpu(double difference) {
        target.comparedWithGpu(difference);
    }

    @Override
    public void comparisonDropped() {
        target.comparisonDropped();
    }
}
