package dev.tandem.server;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.Set;

/** An executor whose steps do not finish while the test blocks it. */
final class GatedExecutor implements Executor {
    private final Executor executor;
    private boolean held;

    GatedExecutor(Executor executor) {
        this.executor = executor;
    }

    synchronized void hold() {
        held = true;
    }

    synchronized void release() {
        held = false;
        notifyAll();
    }

    @Override
    public ExecutorLimits limits() {
        return executor.limits();
    }

    @Override
    public void submit(StepPlan plan) {
        executor.submit(plan);
    }

    @Override
    public void submitLayers(StepPlan plan) {
        executor.submitLayers(plan);
    }

    @Override
    public void sample(Set<Long> skipped) {
        executor.sample(skipped);
    }

    @Override
    public StepResult poll() {
        synchronized (this) {
            while (held) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
        return executor.poll();
    }

    @Override
    public void close() {
        release();
        executor.close();
    }
}
