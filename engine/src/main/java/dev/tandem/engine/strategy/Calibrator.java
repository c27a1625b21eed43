package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.Component;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.CpuTasks;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;

/**
 * Corrects the cost model by the times that the executor measures in each step ({@link StepTimes}). A component that
 * the executor does not measure stays as profiled. The CPU executor measures all components, the CUDA executor only CPU
 * attention. The error of whole steps is learned with both, and that of two sub-batches apart.
 *
 * <p>Owned by: engine thread.
 */
public final class Calibrator implements PolicyScheduler.Calibration {
    private final CostModel cost;
    private final long kvBytesPerToken;

    /**
     * Creates a calibrator.
     *
     * @param cost learns from the steps
     * @param kvBytesPerToken of all layers
     */
    public Calibrator(CostModel cost, long kvBytesPerToken) {
        this.cost = cost;
        this.kvBytesPerToken = kvBytesPerToken;
    }

    @Override
    public void observe(StepDraft draft, StepResult result, double predicted, double seconds) {
        cost.observeStep(predicted, seconds);
        StepTimes times = result.times();
        Load zero = draft.load(0);
        Load one = draft.load(1);
        if (draft.shape() != Shape.PIPELINE) {
            cost.noSubBatches();
        } else if (hasOnlyDecodes(draft)) {
            cost.observeSubBatches(predicted, seconds);
        }
        int layers = cost.layers();
        if (draft.shape() != Shape.ASYNC && draft.resumed().isEmpty()) {
            // with in-flight tokens the number of rows differs from layer to layer
            learn(Component.LINEAR, layers * (cost.linear(zero.rows()) + cost.linear(one.rows())), times.linear());
            if (draft.state().inFlight().isEmpty()) { // otherwise workers attend for in-flight tokens in between
                learn(
                        Component.CPU_ATTENTION,
                        layers
                                * (cost.cpuAttention(zero.cpuRows(), zero.cpuTokens())
                                        + cost.cpuAttention(one.cpuRows(), one.cpuTokens())),
                        times.subBatchAttention());
            }
            learn(Component.PRE_LAYER, cost.preLayer(zero.rows()) + cost.preLayer(one.rows()), times.preLayer());
            learn(
                    Component.POST_LAYER,
                    cost.postLayer(zero.outputs()) + cost.postLayer(one.outputs()),
                    times.postLayer());
        }
        if (draft.shape() == Shape.ASYNC) {
            CpuTasks tasks = result.cpuTasks();
            cost.observeInFlight(tasks.count(), tasks.tokens(), times.cpuAttention() / 1e9);
        } else if (draft.state().inFlight().isEmpty()) {
            cost.noInFlight();
            if (draft.state().host().isEmpty()) { // steps without host tokens may be between others with them
                cost.hostIsEmpty();
            }
        }
        learn(
                Component.PREFILL_ATTENTION,
                layers * cost.prefillAttention(zero.prefillPairs()),
                times.prefillAttention());
        learn(Component.GPU_ATTENTION, layers * cost.gpuAttention(zero.gpuTokens()), times.gpuAttention());
        learn(Component.TRANSFER, cost.transfer(movedTokens(draft) * kvBytesPerToken), times.transfer());
    }

    /** Whether both sub-batches have decodes, and the step has neither prompts, swaps nor tokens in flight. */
    private static boolean hasOnlyDecodes(StepDraft draft) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        return zero.rows() > 0
                && one.rows() > 0
                && zero.rows() + one.rows() == zero.gpuRows() + zero.cpuRows() + one.gpuRows() + one.cpuRows()
                && draft.ins().isEmpty()
                && draft.outs().isEmpty()
                && draft.state().inFlight().isEmpty();
    }

    private static long movedTokens(StepDraft draft) {
        long tokens = 0;
        for (Sequence sequence : draft.outs()) {
            tokens += draft.state().heldTokens(sequence);
        }
        for (Sequence sequence : draft.ins()) {
            tokens += draft.state().heldTokens(sequence);
        }
        return tokens;
    }

    private void learn(Component component, double predicted, long nanos) {
        cost.observe(component, predicted, nanos / 1e9);
    }
}
