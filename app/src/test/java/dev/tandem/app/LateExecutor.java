package dev.tandem.app;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * An executor with async scheduling in front of one without. It computes a plan when its result is polled, so that
 * every placeholder of the plan is known by then.
 *
 * <p>Owned by: engine thread.
 */
final class LateExecutor implements Executor {
    private final Executor executor;
    private final ArrayDeque<StepPlan> plans = new ArrayDeque<>();
    /** The tokens of the last result, by sequence. */
    private final Map<Long, Integer> tokens = new HashMap<>();

    private boolean unsampled;
    private Set<Long> skipped = Set.of();
    /** How many plans were sampled after their submit. */
    int sampledLater;
    /** How many rows were not sampled then. */
    int skippedRows;

    LateExecutor(Executor executor) {
        this.executor = executor;
    }

    @Override
    public ExecutorLimits limits() {
        return executor.limits();
    }

    @Override
    public boolean allowsAsyncScheduling() {
        StepPlan last = plans.getLast();
        return last.swaps().isEmpty()
                && last.admissions().isEmpty()
                && last.slotsPerLayer() == 0
                && last.pause().isEmpty()
                && last.resume().isEmpty()
                && last.subBatches().size() == 1
                && last.subBatches().getFirst().chunks().stream()
                        .allMatch(chunk -> chunk.site() == AttentionSite.GPU_FROM_GPU);
    }

    @Override
    public void submit(StepPlan plan) {
        if (unsampled || plans.size() == MAX_OUTSTANDING) {
            throw new ExecutorException("the plan before is not sampled, or two are outstanding");
        }
        plans.add(plan);
    }

    @Override
    public void submitLayers(StepPlan plan) {
        submit(plan);
        unsampled = true;
        sampledLater += plans.size() - 1;
    }

    @Override
    public void sample(Set<Long> without) {
        if (!unsampled || plans.size() != 1) {
            throw new ExecutorException("no plan waits to be sampled");
        }
        unsampled = false;
        skipped = without;
    }

    @Override
    public StepResult poll() {
        if (unsampled && plans.size() == 1) {
            throw new ExecutorException("the plan is not sampled");
        }
        Set<Long> without = skipped;
        skipped = Set.of();
        skippedRows += without.size();
        executor.submitLayers(known(plans.remove()));
        executor.sample(without);
        StepResult result = executor.poll();
        tokens.clear();
        result.sampled()
                .forEach(sampled ->
                        tokens.put(sampled.sequence(), sampled.choice().token()));
        return result;
    }

    /** The plan with the tokens that the plan before has sampled. */
    private StepPlan known(StepPlan plan) {
        List<SubBatch> batches = plan.subBatches().stream()
                .map(batch ->
                        new SubBatch(batch.chunks().stream().map(this::known).toList(), batch.staging()))
                .toList();
        List<Admission> admissions = plan.admissions().stream()
                .map(admission -> new Admission(
                        admission.sequence(),
                        admission.position(),
                        known(admission.sequence(), admission.token()),
                        admission.kv(),
                        admission.sampler()))
                .toList();
        return new StepPlan(
                plan.step(), plan.swaps(), batches, admissions, plan.slotsPerLayer(), plan.pause(), plan.resume());
    }

    private Chunk known(Chunk chunk) {
        int[] known = chunk.tokens().clone();
        for (int i = 0; i < known.length; i++) {
            known[i] = known(chunk.sequence(), known[i]);
        }
        return new Chunk(
                chunk.sequence(), chunk.start(), known, chunk.kv(), chunk.site(), chunk.sampler(), chunk.scorer());
    }

    private int known(long sequence, int token) {
        // a sequence that the step before has lost has no token, and nobody reads what follows
        return token == Chunk.PLACEHOLDER ? tokens.getOrDefault(sequence, 0) : token;
    }

    @Override
    public void close() {
        executor.close();
    }
}
