package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.GpuSteps;

/**
 * {@code swiftllm} (NEO §5.1): the system without offloading on which NEO is built. Whole prompts start in order of
 * arrival, in steps of their own, as soon as the GPU holds them; otherwise all requests decode. Where the GPU cannot
 * hold the new KV the last request is preempted, and while one is swapped out no prompt starts.
 *
 * @param budget of a step
 * @param preemption what happens to preempted KV
 */
public record SwiftLlm(Budget budget, Preemption preemption) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft prompts = GpuSteps.wholePrompts(state, budget);
        if (!prompts.isEmpty()) {
            why.because("swiftllm: %d tokens of whole prompts", prompts.load(0).rows());
            return prompts;
        }
        StepDraft decodes = GpuSteps.decodes(state, budget, preemption);
        why.because("swiftllm: %d decodes", decodes.load(0).rows());
        return decodes;
    }
}
