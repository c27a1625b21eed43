package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;

/**
 * Prompts into batch 0, in the order in which they deserve it (NEO §3.2, step 3).
 *
 * @param chunked whether a prompt may be cut to fill what is left of the batch; else only one that is longer than any
 *     batch is
 * @param gpu whether new KV may stay on the GPU
 * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 where each row costs the same
 * @param host which sequences' KV may go to the host when the GPU is full, or always when {@code gpu} is false
 */
record Prefills(boolean chunked, boolean gpu, Predicate<Sequence> host, int piggybackedTokens) {
    /** Decode rows from which prompts are piggybacked. */
    private static final int MIN_DECODES = 8;
    /** Steps over which prompts that have room are spread at most. */
    private static final int MAX_SPREAD = 32;

    private static final int MIN_SPREAD = 2;
    /**
     * Without in-flight tokens, over this share of the steps for which sequences decode: unfinished prompts keep others
     * out of KV.
     */
    private static final double SPREAD = 1.0 / 6;
    /** Share of the GPU's pool: with less left, the next request will have to wait. */
    private static final double NEARLY_FULL = 0.1;
    /**
     * Prompt tokens beside in-flight tokens, in {@link #piggybackedTokens}, when no request waits for KV: short enough
     * to keep the CPU at work.
     */
    private static final int LONGEST = 4;
    /** Rows of long steps are rounded up to this: cublasLt computes so many anyway. */
    private static final int ROW_STEP = 64;

    /** Prompts take whatever the batch has left. */
    Prefills(boolean chunked, boolean gpu, Predicate<Sequence> host) {
        this(chunked, gpu, host, 0);
    }

    /**
     * Rows that a step should have at most. When requests wait because KV is short, or would have to
     * ({@link #NEARLY_FULL}), throughput is all that counts, and prompt tokens are cheapest where decode steps
     * piggyback them: few enough that GEMMs take hardly longer, but so many that what has room is computed soon
     * ({@link #MAX_SPREAD}, {@link #SPREAD}). Else prompts are computed at once.
     *
     * @param unfinished prompts that have begun
     */
    int maxRows(StepDraft draft, List<Sequence> unfinished) {
        return maxRows(draft, unfinished, 0, 0);
    }

    /**
     * Likewise; {@code slots} more rows of the GEMMs are for in-flight tokens, and not among those that are returned.
     * In-flight tokens advance one layer per step, so no step is as long as it might be.
     *
     * @param canOffloadPrefill tokens of waiting prompts that have room on the host
     */
    int maxRows(StepDraft draft, List<Sequence> unfinished, int slots, long canOffloadPrefill) {
        int all = draft.budget().maxBatchTokens();
        int decodes = draft.totalRows() + slots;
        if (piggybackedTokens == 0) {
            return all;
        }
        boolean alone = slots == 0 && canOffloadPrefill == 0;
        int max = alone ? all : Math.min(all, whole(decodes + LONGEST * piggybackedTokens) - slots);
        if (decodes < MIN_DECODES || decodes >= piggybackedTokens) {
            return max;
        }
        long tokens = canOffloadPrefill;
        for (Sequence sequence : unfinished) {
            tokens += sequence.remaining();
        }
        int blocks = draft.freeGpu() - draft.gpuSequences();
        int freeSequences = draft.budget().maxSequences() - draft.gpuSequences();
        boolean someoneWaits = false;
        for (Sequence sequence : draft.state().waiting().view()) {
            blocks -= draft.state().kv().blocksFor(KvTier.GPU, sequence.length());
            if (blocks < 0 || --freeSequences < 0 || !draft.roomToGrow(KvTier.GPU, sequence)) {
                someoneWaits = true;
                break;
            }
            tokens += sequence.length();
        }
        if (!someoneWaits
                && blocks >= NEARLY_FULL * draft.state().kv().pool(KvTier.GPU).size()) {
            return max;
        }
        double spread = alone ? Math.clamp(SPREAD * draft.state().meanOutput(), MIN_SPREAD, MAX_SPREAD) : MAX_SPREAD;
        int wanted = whole((int) Math.min(all, decodes + tokens / spread));
        return Math.min(max, Math.max(piggybackedTokens, wanted) - slots);
    }

    /** Rows for which GEMMs of so many are computed anyway. */
    private static int whole(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    /** Goes on with prompts that have begun. */
    void resume(StepDraft draft, List<Sequence> unfinished) {
        resume(draft, unfinished, draft.budget().maxBatchTokens());
    }

    /** @param maxRows of the step */
    void resume(StepDraft draft, List<Sequence> unfinished, int maxRows) {
        for (Sequence sequence : unfinished) {
            boolean returns = sequence.table().tier() == KvTier.HOST;
            int rows = Math.min(
                    Math.min(sequence.remaining(), maxRows - draft.totalRows()),
                    draft.budget().maxChunkTokens());
            if (returns) {
                rows = Math.min(rows, draft.prefillOffloadRoom() - sequence.computed());
            }
            if (rows > 0) {
                draft.add(0, sequence, rows, returns ? AttentionSite.GPU_PREFILL_OFFLOAD : AttentionSite.GPU_FROM_GPU);
            }
        }
    }

    /**
     * Starts waiting prompts until one fits nowhere.
     *
     * @param live sequences that already run, wherever
     */
    void start(StepDraft draft, int live) {
        start(draft, live, 0, draft.budget().maxBatchTokens());
    }

    /**
     * Starts waiting prompts in their order. One that fits nowhere lets at most {@code queueBypasses} later ones of its
     * priority start before it over all steps, then none: large prompts wait a bounded number of turns, and what they
     * leave free is used.
     *
     * @param live sequences that already run, wherever
     * @param maxRows of the step
     */
    void start(StepDraft draft, int live, int queueBypasses, int maxRows) {
        int running = live;
        List<Sequence> passed = new ArrayList<>();
        List<Integer> startsBefore = new ArrayList<>();
        int starts = 0;
        for (Sequence sequence : draft.state().waiting().view()) {
            int rows = rows(draft, sequence, maxRows);
            if (rows == 0 || running >= draft.budget().maxSequences()) {
                return;
            }
            if (!passed.isEmpty()
                    && sequence.request().priority()
                            != passed.getFirst().request().priority()) {
                return;
            }
            Optional<AttentionSite> site = site(draft, sequence, rows);
            if (site.isEmpty()) {
                if (passed.size() == queueBypasses) {
                    return;
                }
                passed.add(sequence);
                startsBefore.add(starts);
                continue;
            }
            for (int i = 0; i < passed.size(); i++) {
                if (passed.get(i).timings().bypassed() + starts - startsBefore.get(i) >= queueBypasses) {
                    return;
                }
            }
            passed.forEach(draft::bypass);
            draft.start(sequence, rows, site.get());
            running++;
            starts++;
        }
    }

    /** Where a waiting prompt would go; empty when there is no room for it. */
    private Optional<AttentionSite> site(StepDraft draft, Sequence sequence, int rows) {
        if (gpu && GpuTier.hasRoom(draft, sequence)) {
            return Optional.of(AttentionSite.GPU_FROM_GPU);
        }
        if (!host.test(sequence) || !HostTier.hasRoom(draft, sequence)) {
            return Optional.empty();
        }
        // a layer's staging holds as many tokens as a step, and all of a prompt must be there while its last chunk is
        // computed
        if (sequence.length() <= draft.budget().maxBatchTokens() && rows <= draft.prefillOffloadRoom()) {
            return Optional.of(AttentionSite.GPU_PREFILL_OFFLOAD);
        }
        // longer ones: the earlier chunks stay in GPU blocks until the last has run
        return rows < sequence.length() && GpuTier.hasRoom(draft, sequence)
                ? Optional.of(AttentionSite.GPU_FROM_GPU)
                : Optional.empty();
    }

    private int rows(StepDraft draft, Sequence sequence, int maxRows) {
        int left = Math.max(0, maxRows - draft.totalRows());
        int length = sequence.length();
        boolean cut = chunked || length > draft.budget().maxBatchTokens();
        if (!cut) {
            return length <= left ? length : 0;
        }
        return Math.min(Math.min(length, left), draft.budget().maxChunkTokens());
    }
}
