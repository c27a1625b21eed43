package dev.tandem.engine.strategy;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import java.util.Optional;

/**
 * Empties the host tier. The GPU's part of a step is that of gpu-only: prompts start only on the GPU, and no sequence
 * enters the host. Host sequences go on decoding in async overlap. There prompts and host sequences take turns for free
 * GPU blocks: a host sequence that returns needs no prefill, and while any is left on the host, steps take longer.
 * In-flight tokens are paused to return only while no prompt waits.
 *
 * <p>Where in-flight tokens would wait longer than their target, host sequences decode in two sub-batches, but only in
 * steps that decode more tokens per second with them. In the other steps they wait, so they return before prompts
 * start. On {@code h200-26k} a step of two sub-batches took twice as long as one of the GPU alone, and such a drain
 * halved throughput for a minute (one H100, 23d3346).
 *
 * <p>Owned by: engine thread.
 *
 * @param gpuOnly whose budget and rules for prompts the steps have
 * @param overlap admits host tokens to layer 0
 * @param pipeline adds host tokens to two sub-batches; empty where the strategy makes no such steps
 */
public record HostDrain(GpuOnly gpuOnly, AsyncOverlap overlap, Optional<Pipeline> pipeline) implements Policy {
    /**
     * Prompts come before host sequences in one of this many steps. With prompts always first, the last host sequences
     * cost 1.3 % of throughput on {@code h200-26k} osc and 2 % on azure-code; with turns they cost nothing (simulated,
     * with steps of host tokens a fifth longer than predicted).
     */
    private static final int PROMPTS_FIRST = 2;

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = new StepDraft(state, gpuOnly.budget(), gpuOnly.forecasts());
        GpuTier.Kept kept = GpuTier.decodes(draft, sequence -> false);
        boolean overlaps = pipeline.isEmpty() || overlap.keepsTarget(state);
        boolean turns = overlaps && !state.waiting().isEmpty();
        boolean promptsFirst = turns && state.steps() % PROMPTS_FIRST == 0;
        if (!kept.evicted() && !promptsFirst) {
            if (turns) { // a token that is paused now would begin anew on the host in the next step, the prompts'
                GpuTier.swapIn(draft);
            } else {
                GpuTier.swapInWithInFlight(draft);
            }
        }
        Prefills prefills = new Prefills(true, true, sequence -> false, gpuOnly.piggybacking());
        int slots = overlap.slots(state.inFlight().size());
        int maxRows = slots == 0
                ? prefills.maxRows(draft, kept.unfinished(), 0)
                : prefills.maxRows(draft, kept.unfinished(), slots, 0);
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!kept.evicted()) {
            int hostSequences = state.host().size() + state.inFlight().size();
            prefills.start(draft, draft.gpuSequences() + hostSequences, gpuOnly.queueBypasses(), maxRows);
        }
        if (overlaps) {
            overlap.admit(draft);
            draft.shape(state.inFlight().size() + draft.admissions().size() > 0 ? Shape.ASYNC : Shape.GPU_ONLY);
        } else if (!state.inFlight().isEmpty()) {
            overlap.goOn(draft);
        } else {
            pipeline.get().addHostTokensWhereFaster(draft);
        }
        why.because(
                "guard: offloading has ended and the host drains: %d in-flight tokens, %d of them admitted now;"
                        + " %d host tokens of this step alone; %d rows on the GPU",
                state.inFlight().size() + draft.admissions().size(),
                draft.admissions().size(),
                draft.load(0).cpuRows() + draft.load(1).cpuRows(),
                draft.load(0).rows() - draft.load(0).cpuRows());
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        overlap.completed(draft, achieved);
    }
}
