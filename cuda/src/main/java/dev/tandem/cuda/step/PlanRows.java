package dev.tandem.cuda.step;

import dev.tandem.cuda.forward.SlotLayers;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/** Checks that the CUDA executor can run a plan, orders the rows of its sub-batches, and counts and places slots. */
public final class PlanRows {
    /** Min slots of a step that has in-flight tokens. */
    private static final int MIN_SLOTS = 8;
    /** From this many slots on, their number is a multiple of it. */
    private static final int SLOT_STEP = 64;
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
     * @param maxSlots of a step; 0 without attention threads, and then there are no host tokens and no prefill offload
     * @throws ExecutorException that names what this executor does not do
     */
    public static List<List<Chunk>> ordered(StepPlan plan, int maxSlots) {
        boolean hasHostTier = maxSlots > 0;
        int admitted = plan.admissions().size();
        int resumed = plan.resume().size();
        if (admitted + resumed > maxSlots || plan.slotsPerLayer() > 0 && !hasHostTier) {
            throw new ExecutorException("this plan has in-flight tokens: " + admitted + " enter, " + resumed
                    + " finish within the step, and up to " + plan.slotsPerLayer()
                    + " go on at each layer; the CUDA executor has " + maxSlots + " slots for those that enter or"
                    + " finish. --max-num-seqs sets the slots under --deviation spread-host-tokens=false");
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

    /**
     * Checks a plan that is sampled at once while the result of the plan before is not read.
     *
     * @throws ExecutorException when a draw depends on that result: it would have the bitmask of another token
     */
    static void requireIndependent(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.sampler().filter(TokenSampler::dependsOnOutput).isPresent()) {
                    throw new ExecutorException("plan " + plan.step() + " samples sequence " + chunk.sequence()
                            + ", whose grammar or penalties depend on a result that was not polled; submit its layers"
                            + " and sample it after the result");
                }
            }
        }
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
            if (!first && chunk.scores(0)) {
                throw new ExecutorException("the CUDA executor scores prompts in the first sub-batch alone, and"
                        + " sequence " + chunk.sequence() + " is in another");
            }
        }
    }

    static boolean sharesDecodeKernel(Chunk chunk) {
        return chunk.rows() == 1 && chunk.site() == AttentionSite.GPU_FROM_GPU;
    }

    /**
     * The slots of a plan's step, besides those of resumed tokens. They are rounded up, to a power of two or a multiple
     * of {@value #SLOT_STEP}, so that few graphs are captured.
     *
     * @param maxSlots of a step, those of resumed tokens included
     */
    public static int slots(StepPlan plan, int maxSlots) {
        int wanted = Math.max(plan.slotsPerLayer(), plan.admissions().size());
        if (wanted == 0) {
            return 0;
        }
        int rounded = wanted <= SLOT_STEP
                ? Math.max(MIN_SLOTS, Integer.highestOneBit(2 * wanted - 1))
                : (wanted + SLOT_STEP - 1) / SLOT_STEP * SLOT_STEP;
        return Math.min(rounded, maxSlots - plan.resume().size());
    }

    /**
     * How many slots a step computes at each layer. Empty for all of them at every layer: where slots are few, where
     * that would be more than half of them, and where tokens finish within the step, because resumed tokens have their
     * rows behind slots.
     *
     * @param returning in-flight tokens that may return at each layer [layers], without those that the plan admits; few
     *     steps ask for them
     */
    static Optional<SlotLayers> slotLayers(StepPlan plan, int slots, Supplier<List<Integer>> returning) {
        if (slots <= HostLinkMemory.USUAL_SLOTS || !plan.resume().isEmpty()) {
            return Optional.empty();
        }
        List<Integer> tokens = returning.get();
        List<Integer> counts = new ArrayList<>(tokens.size() + 1);
        counts.add(plan.admissions().size());
        tokens.forEach(count -> counts.add(Math.min(count, slots)));
        int all = counts.stream().mapToInt(Integer::intValue).sum();
        return all > slots * tokens.size() / 2 ? Optional.empty() : Optional.of(SlotLayers.counting(counts));
    }
}
