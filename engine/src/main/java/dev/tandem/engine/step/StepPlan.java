package dev.tandem.engine.step;

import dev.tandem.engine.kv.Swap;
import java.util.List;

/**
 * One step, decided. It fixes sub-batches, swaps, who reads which row's KV, the host tokens admitted to layer 0, how
 * many in-flight tokens a layer may pick up, and which of them to park. It does not say where in-flight tokens stand:
 * at each layer the executor takes ready rows in completion order.
 *
 * @param step ascending number
 * @param slotsPerLayer at most this many in-flight tokens continue at each layer
 * @param park in-flight tokens to stop; their blocks may be touched once {@link StepResult#parked} names them
 * @param resume in-flight tokens that finish in this step: each joins the last sub-batch at the layer where it stands
 *     (APEX §3.4, partial progress)
 */
public record StepPlan(
        long step,
        List<Swap> swaps,
        List<SubBatch> subBatches,
        List<Admission> admissions,
        int slotsPerLayer,
        List<Long> park,
        List<Long> resume) {
    public StepPlan {
        swaps = List.copyOf(swaps);
        subBatches = List.copyOf(subBatches);
        admissions = List.copyOf(admissions);
        park = List.copyOf(park);
        resume = List.copyOf(resume);
        if (subBatches.size() > 2) {
            throw new IllegalArgumentException("a step has at most 2 sub-batches, not " + subBatches.size());
        }
    }

    /** A step of one unified batch without in-flight tokens. */
    public static StepPlan unified(long step, List<Swap> swaps, List<Chunk> chunks) {
        List<SubBatch> batches = chunks.isEmpty() ? List.of() : List.of(new SubBatch(chunks));
        return new StepPlan(step, swaps, batches, List.of(), 0, List.of(), List.of());
    }

    public boolean isEmpty() {
        return swaps.isEmpty()
                && subBatches.isEmpty()
                && admissions.isEmpty()
                && slotsPerLayer == 0
                && park.isEmpty()
                && resume.isEmpty();
    }

    public int rows() {
        int rows = 0;
        for (SubBatch batch : subBatches) {
            rows += batch.rows();
        }
        return rows;
    }
}
