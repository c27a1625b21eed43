package dev.tandem.cuda.step;

import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** Checks that the CUDA executor can run a plan, and orders the rows of its sub-batches. */
public final class PlanRows {
    /** Min slots of a step that has in-flight tokens. */
    private static final int MIN_SLOTS = 8;
    /** Longest context first, so that the tasks left at the end of a layer are short. */
    private static final Comparator<Chunk> LONGEST_FIRST =
            Comparator.comparingInt(Chunk::start).reversed();

    private PlanRows() {}

    /** Blocks of the GPU pool that the plan borrows for the prefills that it offloads. */
    public static int[] staging(StepPlan plan) {
        return plan.subBatches().isEmpty()
                ? new int[0]
                : plan.subBatches().getFirst().staging();
    }

    /**
     * The chunks of each sub-batch in the order of their rows; a plan without sub-batches yields one that is empty.
     *
     * @param hasHostTier whether there are attention threads, for host tokens and prefill offload
     * @throws ExecutorException that names what this executor does not do
     */
    public static List<List<Chunk>> ordered(StepPlan plan, boolean hasHostTier) {
        boolean hasInFlight = !plan.admissions().isEmpty() || plan.slotsPerLayer() > 0;
        if (!plan.resume().isEmpty()) {
            throw new ExecutorException(
                    "the CUDA executor cannot resume in-flight tokens within a step, and this plan asks for it");
        }
        if (hasInFlight && !hasHostTier || plan.admissions().size() > HostLinkMemory.MAX_SLOTS) {
            throw new ExecutorException("this plan has in-flight tokens, or more than " + HostLinkMemory.MAX_SLOTS
                    + " that enter in one step; the CUDA executor has " + (hasHostTier ? HostLinkMemory.MAX_SLOTS : 0)
                    + " slots");
        }
        List<List<Chunk>> batches = new ArrayList<>();
        for (SubBatch batch : plan.subBatches()) {
            check(batch, hasHostTier, batches.isEmpty());
            batches.add(ordered(batch));
        }
        if (batches.isEmpty()) {
            batches.add(List.of());
        }
        return batches;
    }

    private static List<Chunk> ordered(SubBatch batch) {
        List<Chunk> chunks = new ArrayList<>(batch.chunks().size());
        batch.chunks().stream().filter(PlanRows::sharesDecodeKernel).forEach(chunks::add);
        batch.chunks().stream()
                .filter(chunk -> !sharesDecodeKernel(chunk) && chunk.site() != AttentionSite.CPU_FROM_HOST)
                .forEach(chunks::add);
        batch.chunks().stream()
                .filter(chunk -> chunk.site() == AttentionSite.CPU_FROM_HOST)
                .sorted(LONGEST_FIRST)
                .forEach(chunks::add);
        return chunks;
    }

    private static void check(SubBatch batch, boolean hasHostTier, boolean first) {
        for (Chunk chunk : batch.chunks()) {
            boolean known = switch (chunk.site()) {
                case GPU_FROM_GPU -> true;
                case GPU_PREFILL_OFFLOAD -> hasHostTier && first;
                case CPU_FROM_HOST -> hasHostTier && chunk.decodes();
                case GPU_FROM_HOST -> false;
            };
            if (!known) {
                throw new ExecutorException("the CUDA executor cannot run a row read by " + chunk.site()
                        + (hasHostTier ? " in this sub-batch" : ": it has no attention threads"));
            }
        }
    }

    static boolean sharesDecodeKernel(Chunk chunk) {
        return chunk.rows() == 1 && chunk.site() == AttentionSite.GPU_FROM_GPU;
    }

    /** The slots of a plan's step, rounded up to a power of two so that few graphs are captured. */
    public static int slots(StepPlan plan) {
        int wanted = Math.min(Math.max(plan.slotsPerLayer(), plan.admissions().size()), HostLinkMemory.MAX_SLOTS);
        if (wanted == 0) {
            return 0;
        }
        return Math.max(MIN_SLOTS, Integer.highestOneBit(2 * wanted - 1));
    }
}
