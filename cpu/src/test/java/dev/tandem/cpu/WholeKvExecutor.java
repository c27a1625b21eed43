package dev.tandem.cpu;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.util.List;

/**
 * Hides from the engine that the model has windows, so that all KV is held until a sequence ends. Its blocks are as
 * many pages of the executor as there are groups of layers, one after another.
 */
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
                .build();
    }

    @Override
    public void submit(StepPlan plan) {
        List<SubBatch> batches = plan.subBatches().stream()
                .map(batch ->
                        new SubBatch(batch.chunks().stream().map(this::inGroups).toList(), batch.staging()))
                .toList();
        if (!plan.admissions().isEmpty() || !plan.swaps().isEmpty()) {
            throw new ExecutorException("this executor is for plans that use the GPU tier only");
        }
        executor.submit(new StepPlan(
                plan.step(), List.of(), batches, List.of(), plan.slotsPerLayer(), plan.pause(), plan.resume()));
    }

    private Chunk inGroups(Chunk chunk) {
        return new Chunk(
                chunk.sequence(),
                chunk.start(),
                chunk.tokens(),
                executor.limits().layout().views(chunk.kv(0).blocks()),
                chunk.site(),
                chunk.sampler(),
                chunk.scorer());
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
