package dev.tandem.engine.strategy;

import dev.tandem.engine.batch.KvReader;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import java.util.List;
import java.util.function.Predicate;

/**
 * Prompts into batch 0, in the order in which they deserve it (NEO §3.2, step 3).
 *
 * @param chunked whether a prompt may be cut to fill what is left of the batch; else only one that is longer than any
 *     batch is
 * @param gpu whether new KV may stay on the GPU
 * @param host which sequences' KV may go to the host when the GPU is full, or always when {@code gpu} is false
 */
record Prefills(boolean chunked, boolean gpu, Predicate<Sequence> host) {

    /** Goes on with prompts that have begun. */
    void resume(StepDraft draft, List<Sequence> unfinished) {
        for (Sequence sequence : unfinished) {
            int rows = Math.min(Math.min(sequence.remaining(), left(draft)), draft.budget().maxChunkTokens());
            if (rows > 0) {
                draft.add(0, sequence, rows, KvReader.GPU_FROM_GPU);
            }
        }
    }

    /**
     * Starts waiting prompts until one fits nowhere.
     *
     * @param live sequences that already run, wherever
     */
    void start(StepDraft draft, int live) {
        int running = live;
        for (Sequence sequence : draft.state().waiting().view()) {
            int rows = rows(draft, sequence);
            if (rows == 0 || running >= draft.budget().maxSequences()) {
                return;
            }
            if (gpu && GpuTier.hasRoom(draft, sequence)) {
                draft.start(sequence, rows, KvReader.GPU_FROM_GPU);
            } else if (rows == sequence.length() && host.test(sequence) && HostTier.hasRoom(draft, sequence)) {
                draft.start(sequence, rows, KvReader.GPU_WHILE_LANDING);
            } else if (rows < sequence.length() && GpuTier.hasRoom(draft, sequence)) {
                // several chunks: the earlier ones stay in GPU blocks until the last has run
                draft.start(sequence, rows, KvReader.GPU_FROM_GPU);
            } else {
                return;
            }
            running++;
        }
    }

    private int rows(StepDraft draft, Sequence sequence) {
        int left = left(draft);
        int length = sequence.length();
        boolean cut = chunked || length > draft.budget().maxBatchTokens();
        if (!cut) {
            return length <= left ? length : 0;
        }
        return Math.min(Math.min(length, left), draft.budget().maxChunkTokens());
    }

    private static int left(StepDraft draft) {
        return draft.budget().maxBatchTokens() - draft.totalRows();
    }
}
