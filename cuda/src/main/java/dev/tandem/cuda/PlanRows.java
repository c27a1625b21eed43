package dev.tandem.cuda;

import dev.tandem.engine.batch.Chunk;
import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.batch.StepPlan;
import dev.tandem.engine.batch.SubBatch;
import dev.tandem.engine.execute.ExecutorException;
import java.util.ArrayList;
import java.util.List;

/** What of a plan the CUDA executor takes, and in which order. */
final class PlanRows {
    /** Slots for rows in flight of a step that has any. */
    private static final int LEAST_SLOTS = 8;

    private PlanRows() {}

    /**
     * The chunks of a step, those that share the decode kernel first.
     *
     * @param host whether there are rows in flight and prompts that land
     * @throws ExecutorException that names what this executor does not do
     */
    static List<Chunk> ordered(StepPlan plan, boolean host) {
        boolean flies = !plan.admissions().isEmpty() || plan.slotsPerLayer() > 0;
        if (plan.subBatches().size() > 1 || !plan.resume().isEmpty()) {
            throw new ExecutorException("the CUDA executor runs one batch a step; this plan has two, or rows that finish in it");
        }
        if (flies && !host || plan.admissions().size() > FlightDeck.MOST_SLOTS) {
            throw new ExecutorException("this plan has rows in flight, or more than " + FlightDeck.MOST_SLOTS
                    + " that enter in one step; the CUDA executor has " + (host ? FlightDeck.MOST_SLOTS : 0) + " slots");
        }
        List<Chunk> chunks = new ArrayList<>();
        for (SubBatch batch : plan.subBatches()) {
            batch.chunks().stream().filter(PlanRows::sharesDecodeKernel).forEach(chunks::add);
            batch.chunks().stream().filter(chunk -> !sharesDecodeKernel(chunk)).forEach(chunks::add);
        }
        for (Chunk chunk : chunks) {
            boolean lands = chunk.reader() == KvReader.GPU_WHILE_LANDING && host && chunk.start() == 0;
            if (chunk.reader() != KvReader.GPU_FROM_GPU && !lands) {
                throw new ExecutorException("the CUDA executor cannot run a row read by " + chunk.reader());
            }
        }
        return chunks;
    }

    static boolean sharesDecodeKernel(Chunk chunk) {
        return chunk.rows() == 1 && chunk.reader() == KvReader.GPU_FROM_GPU;
    }

    /** Slots of a step are one of few numbers, because graphs are made for them. */
    static int slots(StepPlan plan) {
        int wanted = Math.min(Math.max(plan.slotsPerLayer(), plan.admissions().size()), FlightDeck.MOST_SLOTS);
        if (wanted == 0) {
            return 0;
        }
        return Math.max(LEAST_SLOTS, Integer.highestOneBit(2 * wanted - 1));
    }
}
