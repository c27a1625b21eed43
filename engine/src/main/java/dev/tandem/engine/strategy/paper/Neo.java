package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.StepPredictor;

/**
 * {@code neo}: NEO's load-aware scheduler (§3.2). Steps 1 to 5 are {@link Pipeline}; step 6 compares the two-batch
 * schedule with batch 0 without its CPU decodes, and the one with more requests per second is taken. (The paper prints
 * T/x as what to maximise; x/T is meant.)
 */
public record Neo(Pipeline pipeline, StepPredictor predictor) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = pipeline.draft(state);
        if (draft.shape() == Shape.GPU_ONLY) {
            why.because("neo: no CPU decode hides behind the GPU's work");
            return draft;
        }
        Load zero = draft.load(0);
        Load one = draft.load(1);
        Load gpu = StepPredictor.withoutCpuRows(draft, 0);
        Candidate pipelined = new Candidate(
                Shape.PIPELINE,
                zero.rows() + one.rows(),
                zero.cpuRows() + one.cpuRows(),
                predictor.pipeline(zero, one),
                zero.requests() + one.requests());
        Candidate gpuOnly = new Candidate(Shape.GPU_ONLY, gpu.rows(), 0, predictor.gpuOnly(gpu), gpu.requests());
        why.consider(gpuOnly);
        why.consider(pipelined);
        if (gpu.rows() > 0 && gpuOnly.rate() >= pipelined.rate()) {
            draft.removeCpuRows();
            draft.shape(Shape.GPU_ONLY);
            why.because("neo: gpu-only brings %.1f requests/s, asymmetric %.1f", gpuOnly.rate(), pipelined.rate());
        } else {
            why.because("neo: asymmetric brings %.1f requests/s, gpu-only %.1f", pipelined.rate(), gpuOnly.rate());
        }
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        pipeline.completed(draft);
    }
}
