package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.step.AttentionSite;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.function.Predicate;

/**
 * Adds prompts to sub-batch 0, in the order of the waiting queue (NEO §3.2, step 3).
 *
 * @param chunked whether a prompt may be computed in chunks, to fill the rest of the batch; otherwise only a prompt
 *     that is longer than a batch is
 * @param gpu whether new KV may stay on the GPU
 * @param host which sequences' KV may go to the host when the GPU is full, or always when {@code gpu} is false
 * @param piggybacking what prompt tokens cost in decode steps
 */
record Prefills(boolean chunked, boolean gpu, Predicate<Sequence> host, PiggybackedPrefill piggybacking) {
    /** Max steps over which prompts that have room are spread. */
    private static final int MAX_SPREAD = 32;
    /** Min steps over which they are spread. */
    private static final int MIN_SPREAD = 2;
    /**
     * Without in-flight tokens, prompts are spread over this fraction of the mean output length in steps: an unfinished
     * prompt holds blocks that other sequences need.
     */
    private static final double SPREAD_FRACTION = 1.0 / 6;
    /**
     * Min decodes of a step with piggybacked prompts when no prompt starts on the host. Simulated with 300 requests,
     * 1000/200 on 16 multiprocessors of an H200 has 957 tokens/s with 1 or 4, and 832 with 8 (ADR 133).
     */
    private static final int MIN_DECODES = 4;
    /**
     * Fraction of the GPU pool; with fewer free blocks the next request will have to wait. Of 12 simulated runs of 300
     * requests, 0.2 changes none by more than 0.4 %, and 0.05 one, which is 1.8 % faster with a pool of 54 blocks
     * (docs/results/constants.jsonl).
     */
    private static final double NEARLY_FULL = 0.1;
    /**
     * Max prompt tokens of a step with in-flight tokens when no request waits for KV, in multiples of
     * {@link PiggybackedPrefill#maxRows}: such steps are short enough to keep the CPU busy.
     */
    private static final int MAX_WITH_IN_FLIGHT = 4;
    /** Max prompts per step that wait for the prefix of another: each takes time to plan. Not tuned. */
    private static final int MAX_DEFERRED = 64;

    /** Rows of long steps are rounded up to a multiple of this: cublasLt computes that many anyway. */
    private static final int ROW_STEP = 64;

    /** Prompts that fill the rest of the batch. */
    Prefills(boolean chunked, boolean gpu, Predicate<Sequence> host) {
        this(chunked, gpu, host, PiggybackedPrefill.NONE);
    }

    /**
     * Max rows that a step should have when no prompt starts on the host. While requests wait for KV, or soon will
     * ({@link #NEARLY_FULL}), only throughput counts, and prompt tokens are cheapest piggybacked on decode steps
     * ({@link PiggybackedPrefill#rows}). Otherwise prompts are computed at once.
     *
     * @param unfinished prompts that have begun
     * @param hostTokens that will join the batch: one row too many may cost as much as many (ADR 134)
     */
    int maxRows(StepDraft draft, List<Sequence> unfinished, int hostTokens) {
        int decodes = draft.totalRows();
        int maxBatchTokens = draft.budget().maxBatchTokens();
        if (decodes < MIN_DECODES || decodes >= piggybacking.maxRows()) {
            return maxBatchTokens;
        }
        Room room = room(draft, draft.gpuBlocksKeptFree());
        if (!kvIsShort(draft, room)) {
            return maxBatchTokens;
        }
        double promptTokens = SpeedupEstimate.promptTokensPerOutput(draft.state()) * room.computed();
        int sequences = decodes + unfinished.size() + room.prompts() + hostTokens;
        // without a waiting request, no prompt follows those that have begun
        int rows = promptTokens == 0 ? 0 : piggybacking.rows(sequences, promptTokens);
        return rows == 0
                ? spread(draft, unfinished, hostTokens, 0, maxBatchTokens, false)
                : Math.min(maxBatchTokens, rows - hostTokens);
    }

    /**
     * Max rows that a step should have when prompts start on the host too, whose tokens need more prompts than those of
     * the GPU. Prompts with room are spread over a number of steps ({@link #MAX_SPREAD}).
     *
     * @param hostTokens that will join the batch
     */
    int maxRowsOfBothTiers(StepDraft draft, List<Sequence> unfinished, int hostTokens) {
        return spread(draft, unfinished, hostTokens, 0, draft.budget().maxBatchTokens(), false);
    }

    /**
     * Max rows that a step with in-flight tokens should have, without the rows of those tokens. In-flight tokens
     * advance one layer per step, so steps are kept shorter than the budget allows.
     *
     * @param slots rows of the GEMMs that in-flight tokens take
     * @param offloadablePrefillTokens tokens of waiting prompts that have room on the host
     */
    int maxRows(StepDraft draft, List<Sequence> unfinished, int slots, long offloadablePrefillTokens) {
        if (slots == 0 && offloadablePrefillTokens == 0) {
            return maxRowsOfBothTiers(draft, unfinished, 0);
        }
        int maxBatchTokens = draft.budget().maxBatchTokens();
        if (piggybacking == PiggybackedPrefill.NONE) {
            return maxBatchTokens;
        }
        int max = roundUpRows(draft.totalRows() + slots + MAX_WITH_IN_FLIGHT * piggybacking.maxRows()) - slots;
        return spread(draft, unfinished, slots, offloadablePrefillTokens, Math.min(maxBatchTokens, max), true);
    }

    /**
     * Max rows that spread prompts with room over a number of steps, where they are piggybacked.
     *
     * @param others rows of the GEMMs that the draft has not yet
     * @param inFlight whether they are those of in-flight tokens
     */
    private int spread(
            StepDraft draft, List<Sequence> unfinished, int others, long offloadable, int max, boolean inFlight) {
        int decodes = draft.totalRows() + others;
        if (!piggybacking.pays(decodes)) {
            return max;
        }
        Room room = room(draft, draft.gpuBlocksKeptFree());
        if (!kvIsShort(draft, room)) {
            return max;
        }
        long tokens = offloadable + room.tokens();
        for (Sequence sequence : unfinished) {
            tokens += sequence.remaining();
        }
        double steps = inFlight
                ? MAX_SPREAD
                : Math.clamp(SPREAD_FRACTION * draft.state().meanOutput(), MIN_SPREAD, MAX_SPREAD);
        int wanted = roundUpRows((int) Math.min(draft.budget().maxBatchTokens(), decodes + tokens / steps));
        return Math.min(max, Math.max(piggybacking.maxRows(), wanted) - others);
    }

    /** Whether a request waits for KV, or the next one will have to. */
    private static boolean kvIsShort(StepDraft draft, Room room) {
        return room.requestWaits()
                || room.blocks()
                        < NEARLY_FULL * draft.state().kv().pool(KvTier.GPU).size();
    }

    /**
     * The waiting prompts for which the GPU has free blocks.
     *
     * @param prompts how many they are
     * @param tokens of these that must be computed
     * @param length of these
     * @param blocks that stay free beside them; negative if the next one has too few
     * @param requestWaits whether a later request waits for KV
     */
    private record Room(int prompts, long tokens, long length, int blocks, boolean requestWaits) {
        /** The part of a prompt that must be computed, on average; the rest is cached. */
        double computed() {
            return length == 0 ? 1 : (double) tokens / length;
        }
    }

    /** @param keptFree blocks that these leave free */
    private static Room room(StepDraft draft, int keptFree) {
        int blocks = draft.freeGpu() - keptFree - draft.nextBlocks(draft.gpuSequences());
        int freeSequences = draft.budget().maxSequences() - draft.gpuSequences();
        int prompts = 0;
        long tokens = 0;
        long length = 0;
        for (Sequence sequence : draft.state().waiting().view()) {
            blocks -= draft.missingOnGpu(sequence);
            if (blocks < 0 || --freeSequences < 0 || !draft.roomToGrow(KvTier.GPU, sequence)) {
                return new Room(prompts, tokens, length, blocks, true);
            }
            prompts++;
            tokens += sequence.length() - draft.hit(sequence);
            length += sequence.length();
        }
        return new Room(prompts, tokens, length, blocks, false);
    }

    /** Waiting prompts for which the GPU has free blocks beside a draft that starts none, those kept free included. */
    static int promptsWithRoom(StepDraft draft) {
        return room(draft, 0).prompts();
    }

    /**
     * Whether more prompts have room on the GPU than sequences decode there, and the host is empty. Prompts save little
     * where they are piggybacked on so few decodes (ADR 130).
     */
    static boolean promptsOutnumberDecodes(StepDraft draft) {
        SchedulerState state = draft.state();
        boolean hostEmpty = state.host().isEmpty() && state.inFlight().isEmpty();
        return hostEmpty
                && room(draft, draft.gpuBlocksKeptFree()).prompts()
                        > draft.load(0).gpuRows();
    }

    /**
     * Whether all prompts can be piggybacked on the GPU's decodes. Each output token of a step, of either tier, comes
     * with as many prompt tokens as waiting requests have per output, on average.
     *
     * @param hostTokens of a step; 0 to count the prompts of GPU decodes alone
     */
    static boolean piggybacks(StepDraft draft, int hostTokens, PiggybackedPrefill piggybacking) {
        int decodes = draft.load(0).gpuRows();
        double prompts = (decodes + hostTokens) * SpeedupEstimate.promptTokensPerOutput(draft.state());
        return piggybacking.pays(decodes) && decodes + prompts <= piggybacking.maxRows();
    }

    /** Rounds up to a number of rows that GEMMs compute anyway. */
    private static int roundUpRows(int rows) {
        return (rows + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    }

    /** Adds the next chunks of prompts that have begun. */
    void resume(StepDraft draft, List<Sequence> unfinished) {
        resume(draft, unfinished, draft.budget().maxBatchTokens());
    }

    /**
     * Adds the next chunks of prompts that have begun.
     *
     * @param maxRows of the step
     */
    void resume(StepDraft draft, List<Sequence> unfinished, int maxRows) {
        for (Sequence sequence : unfinished) {
            boolean onHost = sequence.table().tier() == KvTier.HOST;
            int rows = Math.min(
                    Math.min(sequence.remaining(), maxRows - draft.totalRows()),
                    draft.budget().maxChunkTokens());
            if (onHost && draft.missing(sequence) > draft.freeHost()) {
                draft.dropFromHost(sequence); // others share blocks that its window has passed, so these are not free
                continue;
            }
            if (onHost) {
                rows = draft.prefillOffloadRoom(sequence, rows);
            }
            if (rows > 0) {
                draft.add(0, sequence, rows, onHost ? AttentionSite.GPU_PREFILL_OFFLOAD : AttentionSite.GPU_FROM_GPU);
            }
        }
    }

    /**
     * Starts waiting prompts in their order until one fits neither tier.
     *
     * @param running sequences that already run, on both tiers
     */
    void start(StepDraft draft, int running) {
        start(draft, running, 0, draft.budget().maxBatchTokens());
    }

    /** Starts waiting prompts as the other method does, while no sequence is swapped out. */
    void start(StepDraft draft, int running, int queueBypasses, int maxRows) {
        start(draft, running, List.of(), queueBypasses, maxRows);
    }

    /**
     * Starts waiting prompts in their order. One whose prefix another prompt computes waits for it, and later ones
     * pass: it counts as neither bypassed nor waiting for room. A prompt that fits neither tier lets
     * {@code queueBypasses} later prompts of its priority start before it, counted over all steps, and then no more. So
     * the wait of large prompts is bounded, and small prompts use the blocks that they leave free.
     *
     * @param alreadyRunning sequences that already run, on both tiers
     * @param swappedOut sequences that do not fit the GPU either, ahead of all prompts
     * @param queueBypasses max prompts that start before one that does not fit
     * @param maxRows of the step
     */
    void start(StepDraft draft, int alreadyRunning, List<Sequence> swappedOut, int queueBypasses, int maxRows) {
        int running = alreadyRunning;
        List<Sequence> bypassed = new ArrayList<>(swappedOut);
        List<Integer> startsBefore = new ArrayList<>(Collections.nCopies(swappedOut.size(), 0));
        int starts = 0;
        int deferred = 0;
        for (Sequence sequence : draft.state().waiting().view()) {
            int known = gpu ? draft.hit(sequence) : draft.hostHit(sequence);
            int rows = rows(draft, sequence.length() - known, maxRows);
            if (rows == 0 || running >= draft.budget().maxSequences() || deferred == MAX_DEFERRED) {
                return;
            }
            if (draft.defers(sequence)) {
                deferred++;
                continue;
            }
            if (!bypassed.isEmpty()
                    && sequence.request().priority()
                            != bypassed.getFirst().request().priority()) {
                return;
            }
            Optional<Start> start = start(draft, sequence, rows, maxRows);
            if (start.isEmpty()) {
                if (bypassed.size() >= queueBypasses) {
                    return;
                }
                bypassed.add(sequence);
                startsBefore.add(starts);
                continue;
            }
            for (int i = 0; i < bypassed.size(); i++) {
                if (bypassed.get(i).timings().bypassed() + starts - startsBefore.get(i) >= queueBypasses) {
                    return;
                }
            }
            bypassed.forEach(draft::bypass);
            draft.start(sequence, start.get().rows(), start.get().site());
            running++;
            starts++;
        }
    }

    /** How many tokens of a waiting prompt are computed, and who computes their attention. */
    private record Start(int rows, AttentionSite site) {}

    /**
     * How a waiting prompt would start; empty when neither tier has room.
     *
     * @param gpuRows tokens that would be computed if it started on the GPU
     */
    private Optional<Start> start(StepDraft draft, Sequence sequence, int gpuRows, int maxRows) {
        if (gpu && GpuTier.hasRoom(draft, sequence)) {
            return Optional.of(new Start(gpuRows, AttentionSite.GPU_FROM_GPU));
        }
        int length = sequence.length() - draft.hostHit(sequence);
        int rows = rows(draft, length, maxRows);
        if (rows == 0 || !host.test(sequence) || !HostTier.hasRoom(draft, sequence)) {
            return Optional.empty();
        }
        // Without KV on the GPU, a prompt in GPU blocks waits for the host, and one in host blocks for free GPU blocks.
        // They could wait for each other, so only prompts of one kind are unfinished at a time.
        // A prompt's earlier chunks are staged too, while its last chunk is computed.
        if (draft.couldStage(sequence.length())) {
            boolean others = !gpu && draft.gpuSequences() > 0;
            return !others && draft.prefillOffloadRoom(sequence, rows) == rows
                    ? Optional.of(new Start(rows, AttentionSite.GPU_PREFILL_OFFLOAD))
                    : Optional.empty();
        }
        // a longer prompt stays in GPU blocks until its last chunk has run
        int rest = rows(draft, sequence.length() - draft.hit(sequence), maxRows);
        boolean others = draft.load(0).prefillOffloadTokens() > 0
                || !HostTier.unfinished(draft.state()).isEmpty();
        return rest > 0 && !others && GpuTier.hasRoom(draft, sequence)
                ? Optional.of(new Start(rest, AttentionSite.GPU_FROM_GPU))
                : Optional.empty();
    }

    /** Of {@code length} tokens that a prompt lacks, those that this step would compute. */
    private int rows(StepDraft draft, int length, int maxRows) {
        int left = Math.max(0, maxRows - draft.totalRows());
        boolean inChunks = chunked || length > draft.budget().maxBatchTokens();
        if (!inChunks) {
            return length <= left ? length : 0;
        }
        return Math.min(Math.min(length, left), draft.budget().maxChunkTokens());
    }
}
