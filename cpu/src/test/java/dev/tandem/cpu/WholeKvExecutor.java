package dev.tandem.cpu;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;

/** Hides from the engine that the model has windows, so that all KV is held until a sequence ends. */
record WholeKvExecutor(Executor executor) implements Executor {
    @Override
    public ExecutorLimits limits() {
        ExecutorLimits limits = executor.limits();
        return ExecutorLimits.builder()
                .vocabulary(limits.vocabulary())
                .contextTokens(limits.contextTokens())
                .blockTokens(limits.blockTokens())
                .gpuBlocks(limits.gpuBlocks())
                .hostBlocks(limits.hostBlocks())
                .maxBatchTokens(limits.maxBatchTokens())
                .layers(limits.layers())
                .kvBytesPerToken(limits.kvBytesPerToken())
                .inFlight(limits.slotsPerLayer(), limits.maxInFlight(), limits.completesWithinStep())
                .scoresPrompts(limits.scoresPrompts())
                .build();
    }

    @Override
    public void submit(StepPlan plan) {
        executor.submit(plan);
    }

    @Override
    public boolean computesInSubmit() {
        return executor.computesInSubmit();
    }

    @Override
    public StepResult poll() {
        return executor.poll();
    }

    @Override
    public void close() {
        executor.close();
    }
}
