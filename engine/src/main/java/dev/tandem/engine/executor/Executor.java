package dev.tandem.engine.executor;

import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import java.util.Optional;

/**
 * Runs step plans in the order they are submitted. At most {@link #MAX_OUTSTANDING} are outstanding, so that the next
 * can be prepared while one runs. A device that fails throws {@link ExecutorException}; it is not used again after.
 */
public interface Executor extends AutoCloseable {
    int MAX_OUTSTANDING = 2;

    /** The tiers and limits that plans must respect. */
    ExecutorLimits limits();

    /** Accepts a plan; waits for the plan before it only where the two cannot be on their way together. */
    void submit(StepPlan plan);

    /** Whether {@link #submit} computes the step itself, so that nothing can be done beside it. */
    default boolean computesInSubmit() {
        return false;
    }

    /**
     * Whether the plan after the one that was submitted last may be made and submitted before that one's result is
     * known: its tokens stay on the device, where {@link dev.tandem.engine.step.Chunk#PLACEHOLDER} finds them, no more
     * than GPU blocks are touched, and it is short, for whoever arrives meanwhile waits for one step more. In-flight
     * tokens may go on, but for an executor that finishes them ({@link ExecutorLimits#completesWithinStep}): such plans
     * name where they stand.
     */
    default boolean allowsAsyncScheduling() {
        return false;
    }

    /** Waits for the oldest outstanding plan. */
    StepResult poll();

    /**
     * What is wrong with the device at the moment, a step that takes far too long for example; empty while nothing is.
     * Any thread.
     */
    default Optional<String> trouble() {
        return Optional.empty();
    }

    /** Frees everything, device and host memory and threads included. */
    @Override
    void close();
}
