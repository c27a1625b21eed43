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
    /**
     * Mean context of a schedule's host tokens, over that of the GPU decodes, below which they count for less. Of 8
     * simulated whole runs without the guard, no limit costs five 0.4 to 4.0 %: host tokens then count for less where
     * they pay. With 0.55 four have 0.2 to 0.5 % less than with 0.7 and one, of an H100, 0.6 % more
     * (docs/results/constants.jsonl).
     */
    private static final double SHORT_CONTEXT = 0.7;

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
                requests - uncounted(draft, cpuRows, zero.cpuTokens() + one.cpuTokens()));
    }

    private Candidate inOneBatch(StepDraft draft, SameLayer.Choice choice) {
        Candidate candidate = choice.candidate();
        long cpuTokens =
                choice.tokens().stream().mapToLong(draft.state()::context).sum();
        return new Candidate(
                candidate.shape(),
                candidate.rows(),
                candidate.cpuRows(),
                candidate.seconds(),
                candidate.requests() - uncounted(draft, choice.tokens().size(), cpuTokens));
    }

    /**
     * Requests by which x of NEO §3.2 counts a schedule's host tokens too high; 0 as printed. The paper counts every
     * decode as 1. A few first tokens of outputs then seem to pay for a second pass over the weights, although the
     * context of each is a fraction of a GPU decode's, and the GPU is left with the long ones. By the deviation such
     * host tokens count as their context over the mean of the GPU decodes.
     *
     * @param draft whose GPU decodes the schedule has
     * @param cpuRows host tokens of the schedule
     * @param cpuTokens that they attend to
     */
    private double uncounted(StepDraft draft, int cpuRows, long cpuTokens) {
        int gpuRows = draft.load(0).gpuRows() + draft.load(1).gpuRows();
        if (gpuRows == 0 || !pipeline.deviations().has(Deviation.STEP_6_COUNTS_CONTEXT)) {
            return 0;
        }
        double gpuContext = (double) (draft.load(0).gpuTokens() + draft.load(1).gpuTokens()) / gpuRows;
        double counted = cpuTokens / gpuContext;
        return counted < SHORT_CONTEXT * cpuRows ? cpuRows - counted : 0;
    }

    /** Whether one batch with same-layer tokens does more than two sub-batches; a choice always beats gpu-only. */
    private boolean takesSameLayer(StepDraft draft, SameLayer.Choice choice, Decision why) {
        Candidate inOneBatch = inOneBatch(draft, choice);
        why.consider(inOneBatch);
        int tokens = choice.tokens().size();
        if (draft.shape() == Shape.GPU_ONLY) {
            why.because(
                    "same-layer: the CPU attends for %d host tokens while the GPU attends for its own, which is"
                            + " predicted to do %.1f requests/s; no CPU attention hides in two sub-batches",
                    tokens, inOneBatch.rate());
            return true;
        }
        Candidate pipelined = pipelined(draft);
        if (inOneBatch.rate() <= pipelined.rate()) {
            return false;
        }
        why.consider(pipelined);
        why.because(
                "same-layer: the CPU attends for %d host tokens while the GPU attends for its own, which is"
                        + " predicted to do %.1f requests/s and asymmetric %.1f",
                tokens, inOneBatch.rate(), pipelined.rate());
        return true;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        pipeline.completed(draft, achieved);
    }
}
