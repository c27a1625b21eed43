package dev.tandem.engine.step;

import dev.tandem.engine.kv.Swap;
import java.util.List;

/**
 * What one step computes and moves, as data.
 *
 * <p>A plan does not say at which layer an in-flight token stands. At each layer the executor takes the tokens whose
 * attention result has returned, in the order in which the results did.
 *
 * @param step ascending number
 * @param swaps copies between the tiers, which run before the sub-batches
 * @param subBatches at most two, which alternate when there are two; the second may have no rows of its own where
 *     tokens finish in this step
 * @param admissions host tokens that enter layer 0
 * @param slotsPerLayer max in-flight tokens that continue at each layer, besides those that finish in this step
 * @param pause in-flight tokens to pause; the engine owns their blocks again once {@link StepResult#paused} names them
 * @param resume in-flight tokens that finish in this step: each joins the last sub-batch at the layer where it stands,
 *     and the step waits for its attention from there on (APEX §3.4, partial progress). A token that is paused, or that
 *     the step before has sampled, is left out
 */
public record StepPlan(
        long step,
        List<Swap> swaps,
        List<SubBatch> subBatches,
        List<Admission> admissions,
        int slotsPerLayer,
        List<Long> pause,
        List<Long> resume) {
    /** Copies the lists. */
    public StepPlan {
        swaps = List.copyOf(swaps);
        subBatches = List.copyOf(subBatches);
        admissions = List.copyOf(admissions);
        pause = List.copyOf(pause);
        resume = List.copyOf(resume);
        if (subBatches.size() > 2) {
            throw new IllegalArgumentException("the step has " + subBatches.size() + " sub-batches; the max is 2");
        }
    }

    /** A step of one batch without in-flight tokens. */
    public static StepPlan unified(long step, List<Swap> swaps, List<Chunk> chunks) {
        List<SubBatch> batches = chunks.isEmpty() ? List.of() : List.of(new SubBatch(chunks));
        return new StepPlan(step, swaps, batches, List.of(), 0, List.of(), List.of());
    }

    /** True when there is nothing to compute, move or pause. */
    public boolean isEmpty() {
        return swaps.isEmpty()
                && subBatches.isEmpty()
                && admissions.isEmpty()
                && slotsPerLayer == 0
                && pause.isEmpty()
                && resume.isEmpty();
    }

    /** Tokens of all sub-batches. */
    public int rows() {
        int rows = 0;
        for (SubBatch batch : subBatches) {
            rows += batch.rows();
        }
        return rows;
    }
}
