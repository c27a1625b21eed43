package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.AllHost;
import dev.tandem.engine.strategy.Deviations;

/** {@code simple-offload} (NEO §3.1, strawman 1): all KV and decode attention on the host, and no overlap. */
public record SimpleOffload(Budget budget, Deviations deviations) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = AllHost.prefills(state, budget, deviations);
        AllHost.add(draft, 0, AllHost.decodes(draft));
        draft.shape(draft.load(0).cpuRows() > 0 ? Shape.OFFLOAD : Shape.GPU_ONLY);
        why.because(
                "simple-offload: the CPU computes attention for %d tokens, and the GPU waits for it at each layer",
                draft.load(0).cpuRows());
        return draft;
    }
}
