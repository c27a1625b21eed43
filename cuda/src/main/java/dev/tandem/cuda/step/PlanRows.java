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

/** What of a plan the CUDA executor takes, and in which order. */
public final class PlanRows {
    /** Slots for in-flight tokens of a step that has any. */
    private static final int MIN_SLOTS = 8;
    /** The longest context first: what is left over at the end of a layer is then short. */
    private static final Comparator<Chunk> LONGEST_FIRST =
            Comparator.comparingInt(Chunk::start).reversed();

    private PlanRows() {}

    /**
     * The chunks of each sub-batch in the order of their rows; a plan without any has one that is empty.
     *
     * @param host whether the CPU attends to rows, and prompts land
     * @throws ExecutorException that names what this executor does not do
     */
    public static List<List<Chunk>> ordered(StepPlan plan, boolean host) {
        boolean hasInFlight = !plan.admissions().isEmpty() || plan.slotsPerLayer() > 0;
        if (!plan.resume().isEmpty()) {
            throw new ExecutorException(
                    "the CUDA executor leaves in-flight tokens where they are; this plan has some that finish in it");
        }
        if (hasInFlight && !host || plan.admissions().size() > HostLinkMemory.MAX_SLOTS) {
            throw new ExecutorException("this plan has in-flight tokens, or more than " + HostLinkMemory.MAX_SLOTS
                    + " that enter in one step; the CUDA executor has " + (host ? HostLinkMemory.MAX_SLOTS : 0)
                    + " slots");
        }
        List<List<Chunk>> batches = new ArrayList<>();
        for (SubBatch batch : plan.subBatches()) {
            check(batch, host, batches.isEmpty());
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

    private static void check(SubBatch batch, boolean host, boolean first) {
        for (Chunk chunk : batch.chunks()) {
            boolean known = switch (chunk.site()) {
                case GPU_FROM_GPU -> true;
                case GPU_PREFILL_OFFLOAD -> host && first;
                case CPU_FROM_HOST -> host && chunk.decodes();
                case GPU_FROM_HOST -> false;
            };
            if (!known) {
                throw new ExecutorException("the CUDA executor cannot run a row read by " + chunk.site()
                        + (host ? " in this sub-batch" : ": it has no attention threads"));
            }
        }
    }

    static boolean sharesDecodeKernel(Chunk chunk) {
        return chunk.rows() == 1 && chunk.site() == AttentionSite.GPU_FROM_GPU;
    }

    /** Slots of a step are one of few numbers, because graphs are made for them. */
    public static int slots(StepPlan plan) {
        int wanted = Math.min(Math.max(plan.slotsPerLayer(), plan.admissions().size()), HostLinkMemory.MAX_SLOTS);
        if (wanted == 0) {
            return 0;
        }
        return Math.max(MIN_SLOTS, Integer.highestOneBit(2 * wanted - 1));
    }
}
