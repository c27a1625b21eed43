package dev.tandem.engine.strategy.paper;

import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Decision.Candidate;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.Pipeline;
import dev.tandem.engine.strategy.SameLayer;
import dev.tandem.engine.strategy.StepPredictor;
import java.util.Optional;

/**
 * {@code neo}: NEO's load-aware scheduler (§3.2). Steps 1 to 5 are {@link Pipeline}. Step 6 compares the two
 * sub-batches with sub-batch 0 without its CPU decodes, and takes what does more requests per second. (The paper says
 * that T/x is maximised; it means x/T.) With {@link Deviation#STEP_6_COUNTS_CONTEXT} a host token of a short context
 * counts for less there.
 *
 * @param pipeline drafts steps of two sub-batches
 * @param predictor of the times of steps
 * @param sameLayer a third schedule that is compared with the two; the paper has none
 */
public record Neo(Pipeline pipeline, StepPredictor predictor, Optional<SameLayer> sameLayer) implements Policy {
    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = pipeline.draft(state);
        Optional<SameLayer.Choice> inOneBatch = sameLayer.flatMap(schedule -> schedule.choose(draft));
        if (inOneBatch.isPresent() && takesSameLayer(draft, inOneBatch.get(), why)) {
            sameLayer.orElseThrow().apply(draft, inOneBatch.get());
            return draft;
        }
        if (draft.shape() == Shape.GPU_ONLY) {
            pipeline.makeGpuOnly(draft);
            why.because("neo: no CPU attention hides behind the GPU's work, so gpu-only");
            return draft;
        }
        Load gpu = pipeline.gpuOnlySchedule(draft);
        Candidate pipelined = pipelined(draft);
        Candidate gpuOnly = new Candidate(Shape.GPU_ONLY, gpu.rows(), 0, predictor.gpuOnly(gpu), gpu.requests());
        why.consider(gpuOnly);
        why.consider(pipelined);
        if (gpu.rows() > 0 && gpuOnly.rate() >= pipelined.rate()) {
            pipeline.makeGpuOnly(draft);
            why.because(
                    "neo: gpu-only is predicted to do %.1f requests/s and asymmetric %.1f, so gpu-only",
                    gpuOnly.rate(), pipelined.rate());
        } else {
            why.because(
                    "neo: asymmetric is predicted to do %.1f requests/s and gpu-only %.1f, so asymmetric",
                    pipelined.rate(), gpuOnly.rate());
        }
        return draft;
    }

    private Candidate pipelined(StepDraft draft) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        int cpuRows = zero.cpuRows() + one.cpuRows();
        double requests = zero.requests() + one.requests();
        return new Candidate(
                Shape.PIPELINE,
                zero.rows() + one.rows(),
                cpuRows,
                predictor.pipeline(zero, one),
                requests - pipeline.uncounted(draft, cpuRows, zero.cpuTokens() + one.cpuTokens()));
    }

    /** Whether one batch with same-layer tokens does more than two sub-batches; a choice always beats gpu-only. */
    private boolean takesSameLayer(StepDraft draft, SameLayer.Choice choice, Decision why) {
        Candidate inOneBatch = choice.candidate();
        why.consider(inOneBatch);
        int tokens = choice.tokens().size();
        double waitMillis = 1e3 * choice.waits();
        if (draft.shape() == Shape.GPU_ONLY) {
            why.because(
                    "same-layer: the CPU attends for %d host tokens while the GPU attends for its own and waits %.1f"
                            + " ms, which is predicted to do %.1f requests/s;"
                            + " no CPU attention hides in two sub-batches",
                    tokens, waitMillis, inOneBatch.rate());
            return true;
        }
        Candidate pipelined = pipelined(draft);
        if (inOneBatch.rate() <= pipelined.rate()) {
            return false;
        }
        why.consider(pipelined);
        why.because(
                "same-layer: the CPU attends for %d host tokens while the GPU attends for its own and waits %.1f ms,"
                        + " which is predicted to do %.1f requests/s and asymmetric %.1f",
                tokens, waitMillis, inOneBatch.rate(), pipelined.rate());
        return true;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        pipeline.completed(draft, achieved);
    }
}
