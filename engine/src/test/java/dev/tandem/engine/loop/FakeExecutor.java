package dev.tandem.engine.loop;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;

/** Samples the same token for every sequence, until the test makes it lose sequences or fail. */
final class FakeExecutor implements Executor {
    static final int TOKEN = 7;

    /** Submitted and not polled. */
    final Queue<StepPlan> plans = new ArrayDeque<>();

    final List<StepPlan> submitted = new ArrayList<>();
    /** Sequences that are lost whenever a step samples them. */
    final Map<Long, StepResult.Lost> losing = new HashMap<>();

    boolean allowsAsyncScheduling;
    private boolean unsampled;
    private Set<Long> skipped = Set.of();
    int gpuBlocks = 8;
    /** Of each layer; layers with different ones have blocks of their own. */
    List<Integer> windows = List.of();

    volatile boolean broken;
    volatile boolean closed;
    RuntimeException onClose;
    Runnable beforeClose = () -> {};

    /** From now on the sequence's token cannot be chosen. */
    void lose(long sequence, boolean stillInUse) {
        losing.put(
                sequence, new StepResult.Lost(sequence, StepResult.Cause.SAMPLING, "its logits are NaN", stillInUse));
    }

    /** From now on the worker that attends for the sequence is gone. */
    void loseWorker(long sequence) {
        losing.put(
                sequence, new StepResult.Lost(sequence, StepResult.Cause.HOST_ATTENTION, "the worker is gone", false));
    }

    @Override
    public ExecutorLimits limits() {
        return ExecutorLimits.builder()
                .vocabulary(100)
                .contextTokens(64)
                .blockTokens(16)
                .gpuBlocks(gpuBlocks)
                .hostBlocks(8)
                .maxBatchTokens(64)
                .windows(windows)
                .build();
    }

    @Override
    public boolean allowsAsyncScheduling() {
        return allowsAsyncScheduling;
    }

    @Override
    public void submit(StepPlan plan) {
        plans.add(plan);
        submitted.add(plan);
    }

    @Override
    public void submitLayers(StepPlan plan) {
        submit(plan);
        unsampled = true;
    }

    @Override
    public void sample(Set<Long> without) {
        unsampled = false;
        skipped = without;
    }

    @Override
    public StepResult poll() {
        if (broken) {
            throw new ExecutorException("the device is gone");
        }
        StepPlan plan = plans.remove();
        if (unsampled && plans.isEmpty()) {
            throw new ExecutorException("the plan is not sampled");
        }
        Set<Long> without = skipped;
        skipped = Set.of();
        List<StepResult.Sampled> sampled = new ArrayList<>();
        List<StepResult.Lost> lost = new ArrayList<>();
        plan.subBatches().stream()
                .flatMap(batch -> batch.chunks().stream())
                .filter(chunk -> chunk.sampler().isPresent() && !without.contains(chunk.sequence()))
                .forEach(chunk -> {
                    StepResult.Lost loss = losing.get(chunk.sequence());
                    if (loss == null) {
                        sampled.add(new StepResult.Sampled(
                                chunk.sequence(), new Choice(TOKEN, Optional.empty()), chunk.site()));
                    } else {
                        lost.add(loss);
                    }
                });
        return new StepResult(plan.step(), sampled, List.of(), List.of(), lost, StepTimes.NONE);
    }

    /** Sequences that the last plan computes. */
    List<Long> computing() {
        return submitted.getLast().subBatches().stream()
                .flatMap(batch -> batch.chunks().stream())
                .map(Chunk::sequence)
                .toList();
    }

    @Override
    public void close() {
        beforeClose.run();
        closed = true;
        if (onClose != null) {
            throw onClose;
        }
    }
}
