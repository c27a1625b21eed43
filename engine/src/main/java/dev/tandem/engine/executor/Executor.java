package dev.tandem.engine.executor;

import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.Optional;
import java.util.Set;

/**
 * Runs step plans in the order in which they are submitted.
 *
 * <p>At most {@link #MAX_OUTSTANDING} plans are outstanding, so that the next plan can be prepared while one runs. When
 * the device fails, any method throws {@link ExecutorException}, and the executor is not used again.
 *
 * <p>Owned by: engine thread, except {@link #trouble}.
 */
public interface Executor extends AutoCloseable {
    /** Max plans that are submitted and not yet polled. */
    int MAX_OUTSTANDING = 2;

    /** The tiers and limits that plans must respect. */
    ExecutorLimits limits();

    /** Accepts a plan. It waits for the plan before it only where the device cannot hold both. */
    void submit(StepPlan plan);

    /**
     * Accepts a plan without the sampling of its rows. {@link #sample} follows before any other plan is submitted, and
     * once the result of the plan before is known, on which the draws may depend. An executor whose rows may have a
     * grammar implements both.
     */
    default void submitLayers(StepPlan plan) {
        throw new UnsupportedOperationException("this executor samples in submit");
    }

    /**
     * Samples the rows of the plan of {@link #submitLayers}, with the samplers and matchers as they are now.
     *
     * @param skipped sequences of which the result has no token: they have ended, their token is known already, or a
     *     later plan computes the row again and samples it. Their samplers draw nothing
     */
    default void sample(Set<Long> skipped) {
        throw new UnsupportedOperationException("this executor samples in submit");
    }

    /** Whether a row with a grammar is drawn by its bitmask also where the most probable token is wanted. */
    default boolean drawsByBitmask() {
        return false;
    }

    /** True when {@link #submit} computes the step itself, so that the engine thread can do nothing beside it. */
    default boolean computesInSubmit() {
        return false;
    }

    /**
     * Whether the next plan may be made and submitted before the result of the last submitted one is known.
     *
     * <p>True requires of the last submitted plan: its sampled tokens stay on the device, where
     * {@link dev.tandem.engine.step.Chunk#PLACEHOLDER} refers to them; it swaps nothing; and it is short, because a new
     * request waits for one step more. It may offload prefills, if their copies follow the order of the steps, and have
     * host tokens, if the CPU attends in that order. In-flight tokens may continue. The next plan may then resume one
     * that the last samples; the executor leaves it out. Where draws of the next plan depend on the sampled tokens, it
     * is submitted by {@link #submitLayers}.
     */
    default boolean allowsAsyncScheduling() {
        return false;
    }

    /** Waits for the oldest outstanding plan and returns its result. */
    StepResult poll();

    /**
     * What is wrong with the device now, for example a step that takes far too long; empty when nothing is. Any thread.
     */
    default Optional<String> trouble() {
        return Optional.empty();
    }

    /** Frees device memory, host memory and threads. */
    @Override
    void close();
}
