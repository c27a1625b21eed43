package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.Load;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/**
 * Drafts two sub-batches that take turns, by steps 1 to 5 of NEO §3.2. Sub-batch 0 has prefills, GPU decodes and a few
 * CPU decodes; sub-batch 1 has most CPU decodes. Every CPU decode that is added keeps {@code T_ca1 <= T_l0} and
 * {@code T_ca0 <= T_l1 + T_ga0}, corrected by the overheads ({@link StepPredictor#hides}). Tokens that the GPU may wait
 * for are the exception, and FastDecode+: without KV on the GPU nothing else can make progress (NEO §5.3).
 *
 * @param budget of a step
 * @param predictor of the times of steps
 * @param rules which sequences may be on the host
 * @param deviations from the paper
 * @param gpuKv whether KV may stay on the GPU; false makes FastDecode+ (NEO §5.1)
 * @param kinds of steps that the strategy may make with a full host; the one of most gain says how far prompts fill it
 * @param piggybacking what prompt tokens cost in decode steps; {@link PiggybackedPrefill#NONE} computes prompts at once
 */
public record Pipeline(
        Budget budget,
        StepPredictor predictor,
        TierRules rules,
        Deviations deviations,
        boolean gpuKv,
        Set<Kind> kinds,
        PiggybackedPrefill piggybacking) {
    /** Min fraction of a linear stage during which the CPU works; below it, the CPU counts as idle. */
    private static final double MIN_BUSY = 0.5;
    /**
     * Chunked prompts leave one row in this many of a step to host tokens, because more host tokens hide behind a step
     * full of prompts than behind any other; with whole tiles, only where the CPU is the bottleneck.
     */
    private static final int ROWS_PER_HOST_TOKEN = 8;
    /**
     * Max time of a step's GEMMs, in targets for the time per token: most steps have no prompts. Of 12 simulated runs
     * of 300 requests, 1.0 changes the two on 8 multiprocessors: 1.5 % slower, with 1.5 times the mean time per token;
     * in a steady window 1.2 % faster, with 1.7 times. With 0.25 all are as with 0.5, because {@link #MIN_STEP_ROWS}
     * binds (docs/results/constants.jsonl).
     */
    private static final double MAX_PROMPT_TIME = 0.5;
    /**
     * Rows of a step from which a GEMM's time per row hardly falls. In the runs of {@link #MAX_PROMPT_TIME}, 256
     * changes nothing, and 1024 costs what 1.0 costs there.
     */
    private static final int MIN_STEP_ROWS = 512;
    /** Rows of a GEMM's tile. */
    private static final int TILE = 64;
    /**
     * Min saving of time per row for which a step of prompts gets more rows, which delay every token. Not tuned: from
     * 448 to 512 rows, two of four profiles of eight multiprocessors save 6 %, the others 1 and 2 %.
     */
    private static final double MIN_SAVING = 0.02;
    /** Min tokens of sub-batch 0 after step 5 of NEO's artifact, and of the gpu-only schedule of its step 6. */
    private static final int ARTIFACT_MIN_ROWS = 128;

    /**
     * Mean context of a schedule's host tokens, over that of the GPU decodes, below which they count for less. Of 8
     * simulated whole runs without the guard, no limit costs five 0.4 to 4.0 %: host tokens then count for less where
     * they pay. With 0.55 four have 0.2 to 0.5 % less than with 0.7 and one, of an H100, 0.6 % more
     * (docs/results/constants.jsonl).
     */
    private static final double SHORT_CONTEXT = 0.7;

    /** Fills the host for two sub-batches alone, and computes prompts at once. */
    public Pipeline(Budget budget, StepPredictor predictor, TierRules rules, Deviations deviations, boolean gpuKv) {
        this(budget, predictor, rules, deviations, gpuKv, Set.of(Kind.HOST_TOKENS_IN_BOTH), PiggybackedPrefill.NONE);
    }

    /** Drafts a step. */
    public StepDraft draft(SchedulerState state) {
        return draft(state, List.of());
    }

    /**
     * Drafts NEO's steps 1 to 3: the CPU attends for no token. Prompts that GPU memory cannot hold start on the host.
     */
    public StepDraft withoutHostTokens(SchedulerState state) {
        return gpuSide(state, state.host().size());
    }

    /** Adds host tokens to a draft that has the GPU's part of the step, and reduces prompts: NEO's steps 4 and 5. */
    public void addHostTokens(StepDraft draft) {
        addHostTokens(draft, List.of());
    }

    /**
     * Counts a completed step, whichever policy drafted it.
     *
     * @param seconds that the step took; 0 where that is not known
     */
    public void completed(StepDraft draft, double seconds) {
        rules.completed(draft, seconds);
    }

    /**
     * Which targets host tokens keep that wait for the CPU within a step.
     *
     * <p>A step takes as long as the CPU needs for the attention of its host tokens, or as long as steps took. Where it
     * pays that the GPU waits for the last token in one batch, the predicted time of a step without prompts counts
     * instead, in one batch or in two, whichever allows the shorter target. Steps wait as long as the target allows, so
     * by their mean alone no sequence could enter the host until it is nearly empty (ADR 101). While the host fills,
     * steps have fewer host tokens and younger ones, so by their mean too many could enter (ADR 135).
     *
     * <p>A request's mean time per token depends on the contexts while it decodes, not on their max. By the max, few
     * may enter while sequences are young, and many at a time once they end, again and again (ADR 136). Where the GPU's
     * KV is limited, its attention counts as filled to the limit, as it will be while requests wait (ADR 143).
     */
    private final class WithinStepPace implements HostPace {
        @Override
        public double shortestTarget(StepDraft draft, int sequences, long tokens) {
            double attention = predictor.cost().layers() * predictor.cost().cpuAttention(sequences, tokens);
            double pace = Math.max(rules.meanStepSeconds(), attention) / TierRules.MAX_PACE;
            Load gpu = draft.load(0);
            if (!deviations.has(Deviation.SAME_LAYER) || !predictor.hidesOneBesideDecodes(gpu)) {
                return pace;
            }
            int rows = gpu.gpuRows();
            int context = (int) (tokens / sequences);
            double oneBatch = predictor.sameLayer(rows, gpu.gpuTokens(), sequences, context, 0, 0);
            if (attention / sequences > oneBatch / (rows + sequences)) {
                return pace; // the last host token does not pay in one batch
            }
            long gpuTokens =
                    Math.max(gpu.gpuTokens(), rules.gpuKvLimitInForce(draft).gpuTokens());
            return predictedTarget(gpu, gpuTokens, sequences, context);
        }

        @Override
        public long context(StepDraft draft, Sequence candidate) {
            return draft.expectedHostContext(List.of(candidate));
        }
    }

    /** Drafts a step as if all in-flight tokens had returned; it serves comparison only and must not be committed. */
    public StepDraft draftAsIfReturned(SchedulerState state) {
        return draft(state, state.inFlight());
    }

    /** @param returned in-flight tokens that are treated as host tokens */
    private StepDraft draft(SchedulerState state, Collection<Sequence> returned) {
        StepDraft draft = gpuKv
                ? gpuSide(state, state.host().size() + returned.size())
                : AllHost.prefills(state, budget, deviations);
        addHostTokens(draft, returned);
        return draft;
    }

    private void addHostTokens(StepDraft draft, Collection<Sequence> returned) {
        List<Sequence> queue = HostTier.decodable(draft);
        queue.addAll(returned);
        if (gpuKv && deviations.has(Deviation.LONGEST_WAITING_FIRST)) {
            queue.sort(HostTier.WAITED_LONGEST);
        }
        boolean alternates = !gpuKv || deviations.has(Deviation.ALTERNATING_STEP_4);
        List<Sequence> left = alternates ? alternatingDecodes(draft, queue) : cpuDecodes(draft, queue);
        reducePrefills(draft);
        if (gpuKv && deviations.has(Deviation.WAITS_FOR_HOST_TOKENS)) {
            addWaitedFor(draft, left);
        }
        boolean cpu = draft.load(0).cpuRows() + draft.load(1).cpuRows() > 0;
        draft.shape(cpu ? Shape.PIPELINE : Shape.GPU_ONLY);
    }

    /**
     * Adds host tokens as {@link #addHostTokens(StepDraft)} does, unless the step then decodes fewer tokens per second.
     */
    void addHostTokensWhereFaster(StepDraft draft) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        double alone = zero.requests() / predictor.gpuOnly(zero);
        addHostTokens(draft);
        if ((zero.requests() + one.requests()) / predictor.pipeline(zero, one) < alone) {
            makeGpuOnly(draft);
        }
    }

    /**
     * NEO's steps 1 to 3.
     *
     * @param hostTokens whose attention the CPU might compute
     */
    private StepDraft gpuSide(SchedulerState state, int hostTokens) {
        StepDraft draft = new StepDraft(state, budget, deviations.has(Deviation.ROOM_TO_GROW));
        boolean chunked = deviations.has(Deviation.CHUNKED_PREFILL);
        HostPace pace = new WithinStepPace();
        GpuTier.Kept kept = GpuTier.decodes(draft, draft::fitsHost);
        int maxBatchTokens = chunked ? maxRows() : budget.maxBatchTokens();
        if (deviations.has(Deviation.ROOM_TO_GROW) && !state.host().isEmpty()) {
            int begun = state.waiting().isEmpty() ? 0 : state.waiting().first().length();
            draft.leaveForStaging(maxBatchTokens + begun);
        }
        boolean returns = !kept.evicted()
                && rules.gpuBlocksKeptFree() > 0
                && HostReturn.swapsInLongest(
                        draft, predictor, rules.defaultTargets().perTokenNanos());
        draft.keepGpuBlocksFree(rules.gpuBlocksKeptFree(), rules::toleratesDefaultTarget);
        if (!kept.evicted() && !returns) {
            rules.rotate(draft, pace);
        }
        GpuKvLimit limit = gpuKvLimit(draft);
        // a step that is planned before the search ahead of it has ended does not undo what that began
        boolean begins = draft.foundGpuKvLimit() != null && limit.freeBlocks() > 0;
        if (!kept.evicted() && draft.gpuBlocksKeptFree() == 0 && !begins) {
            GpuTier.swapIn(draft);
        }
        HostPrompts hostPrompts = HostPrompts.of(draft, predictor, rules, kinds, piggybacking, limit);
        draft.note(hostPrompts.note());
        limitGpuKv(draft, hostPrompts, limit, pace);
        if (returns) {
            draft.note(
                    "a sequence returns from the host, whose attention would make steps longer than the default target"
                            + (draft.note().isEmpty() ? "" : "; " + draft.note()));
        }
        // a target makes the first steps of a run short; without one gpu-only's first step fills the pool (ADR 134)
        boolean shortFirstSteps = rules.defaultTargets().perTokenNanos() > 0 && !state.outputsKnown();
        boolean piggybacks = hostPrompts.piggybacked()
                && !((hostPrompts.start() || shortFirstSteps) && Prefills.promptsOutnumberDecodes(draft));
        Prefills prefills = new Prefills(
                chunked,
                true,
                sequence -> !returns && hostPrompts.start() && rules.mayLiveOnHost(draft, sequence, pace),
                piggybacks ? piggybacking : PiggybackedPrefill.NONE);
        int most = budget.maxBatchTokens();
        if (hostPrompts == HostPrompts.IN_BALANCE) {
            double tokens = draft.load(0).gpuRows() + hostTokens;
            double inBalance = tokens * (1 + SpeedupEstimate.promptTokensPerOutput(state));
            most = Math.min(most, (int) Math.max(2 * efficientRows(), inBalance));
        }
        maxBatchTokens = Math.min(maxBatchTokens, most);
        int forPrompts = chunked ? rowsForPrompts(state, hostTokens, maxBatchTokens, most) : maxBatchTokens;
        int inBatch = piggybacks ? sameLayerTokens(draft) : 0;
        int spread = hostPrompts.start()
                ? prefills.maxRowsOfBothTiers(draft, kept.unfinished(), inBatch)
                : prefills.maxRows(draft, kept.unfinished(), inBatch);
        int maxRows = Math.min(forPrompts, spread);
        prefills.resume(draft, kept.unfinished(), maxRows);
        if (!hostPrompts.start()
                && draft.ins().size() < state.host().size() + state.inFlight().size()) {
            return draft; // as in gpu-only, sequences that have left the GPU return before prompts start
        }
        prefills.start(draft, draft.gpuSequences() + draft.hostSequences(), 0, maxRows);
        return draft;
    }

    /** How much KV the GPU is to hold: found anew in some steps, in others as it was last found. */
    private GpuKvLimit gpuKvLimit(StepDraft draft) {
        // the few decodes that a limit leaves may hide no token, and do not end it
        boolean applies = !draft.state().waiting().isEmpty()
                && draft.load(0).gpuRows() > 0
                && rules.defaultTargets().perTokenNanos() > 0
                && deviations.has(Deviation.SAME_LAYER)
                && kinds.contains(Kind.HOST_TOKENS_IN_BOTH)
                && (rules.gpuKvLimit().freeBlocks() > 0 || predictor.hidesOneBesideDecodes(draft.load(0)));
        if (!rules.gpuKvLimitIsDue()) {
            return applies ? rules.gpuKvLimit() : GpuKvLimit.NONE;
        }
        GpuKvLimit limit = applies ? GpuKvLimitSearch.find(draft, this) : GpuKvLimit.NONE;
        draft.noteGpuKvLimit(limit);
        return limit;
    }

    /**
     * Has the draft keep GPU blocks free where prompts start on the host. In steps that find the limit anew, sequences
     * may leave a GPU that holds more, and no more of them than requests wait: it is for these that both tiers fill.
     */
    private void limitGpuKv(StepDraft draft, HostPrompts hostPrompts, GpuKvLimit limit, HostPace pace) {
        boolean finds = draft.foundGpuKvLimit() != null;
        int blocks = hostPrompts.start() ? limit.freeBlocks() : 0;
        if (finds || blocks == 0) {
            draft.keepGpuBlocksFree(blocks, rules::toleratesDefaultTarget);
        }
        if (finds && blocks > 0 && draft.ins().isEmpty()) {
            GpuTier.swapOutLongest(draft, draft.state().waiting().size(), rows -> mayMoveOut(draft, rows, pace));
        }
        if (draft.gpuBlocksKeptFree() > 0) {
            draft.note(GpuKvLimitSearch.note(draft, hostPrompts.note()));
        }
    }

    /**
     * Whether the host would be fast enough for the rows' sequences, and for its others, without these on the GPU; or
     * else is predicted to be faster; and in both cases not late by the contexts of now. Two sub-batches are late for
     * the GPU's attention, and less of it is then left (ADR 142).
     */
    private boolean mayMoveOut(StepDraft draft, List<Row> rows, HostPace pace) {
        Load gpu = draft.load(0);
        int host = draft.hostSequences();
        int hostAfter = host + rows.size();
        double before = host == 0
                ? 0
                : predictedTarget(gpu, gpu.gpuTokens(), host, (int) (draft.expectedHostContext(List.of()) / host));
        long tokens = draft.expectedHostContext(rows.stream().map(Row::sequence).toList());
        rows.forEach(row -> gpu.add(row, -1));
        double after = predictedTarget(gpu, gpu.gpuTokens(), hostAfter, (int) (tokens / hostAfter));
        double shortest = pace.shortestTarget(draft, hostAfter, tokens);
        rows.forEach(row -> gpu.add(row, 1));
        return HostReturn.isNotLateAfter(
                        draft, rows, predictor, rules.defaultTargets().perTokenNanos())
                && (after < before
                        || (rules.allKeepTargets(draft.state().host(), shortest)
                                && rules.allKeepTargets(draft.state().inFlight(), shortest)));
    }

    /**
     * The shortest target, in seconds, that host sequences of one context keep beside the GPU's decodes in steps
     * without prompts: in one batch or in two, whichever is shorter.
     *
     * @param gpuTokens of context of the GPU's decodes
     */
    private double predictedTarget(Load gpu, long gpuTokens, int sequences, int context) {
        double oneBatch = predictor.sameLayer(gpu.gpuRows(), gpuTokens, sequences, context, 0, 0);
        double twoBatches = predictor.pipelinedInBoth(gpu.gpuRows(), gpuTokens, sequences, context, 0, 0);
        return Math.min(oneBatch / TierRules.MAX_PACE, twoBatches / TierRules.MAX_PACE_IN_SUB_BATCHES);
    }

    /** Host tokens that are expected to join the batch of the GPU's decodes. */
    private int sameLayerTokens(StepDraft draft) {
        if (!deviations.has(Deviation.SAME_LAYER) || draft.state().host().isEmpty()) {
            return 0;
        }
        return SameLayer.best(draft, this)
                .filter(SameLayer.BestHost::oneBatch)
                .map(best -> Math.min(best.hostTokens(), draft.state().host().size()))
                .orElse(0);
    }

    /**
     * Max rows of a step with chunked prompts. All sequences get one token per step, on either tier, so prompts must
     * not make steps longer than a part of the target for the time per token. A whole prompt may be longer.
     */
    private int maxRows() {
        int rows = budget.maxBatchTokens();
        while (rows > MIN_STEP_ROWS && !keepsTarget(rows)) {
            rows /= 2;
        }
        return rows;
    }

    /** Rows of a step of which twice as many save less than {@link #MIN_SAVING} of a GEMM's time per row. */
    private int efficientRows() {
        int rows = MIN_STEP_ROWS;
        while (2 * rows <= budget.maxBatchTokens()
                && predictor.cost().linear(2 * rows) / 2
                        < (1 - MIN_SAVING) * predictor.cost().linear(rows)) {
            rows *= 2;
        }
        return rows;
    }

    /**
     * The rows of a step that chunked prompts and GPU decodes may fill. While all host tokens hide in sub-batch 1, that
     * is whole tiles. Else the CPU is the bottleneck, and prompts leave rows to host tokens.
     *
     * @param maxRows of the step, without whole tiles
     * @param most rows that it may have with them
     */
    private int rowsForPrompts(SchedulerState state, int hostTokens, int maxRows, int most) {
        int forHostTokens = deviations.has(Deviation.RESERVED_HOST_TOKENS)
                ? Math.min(hostTokens, maxRows / ROWS_PER_HOST_TOKEN)
                : 0;
        // whole tiles are fewer than twice the rows, which exceed the target; if even these hide too little, no search
        if (deviations.has(Deviation.WHOLE_TILES)
                && allHide(state, hostTokens, predictor.cost().linear(Math.min(most, 2 * maxRows)))) {
            int whole = wholeTiles(maxRows, most);
            if (allHide(state, hostTokens, predictor.cost().linear(whole))) {
                return Math.min(whole, budget.maxBatchTokens() - forHostTokens);
            }
        }
        return maxRows - forHostTokens;
    }

    /**
     * GEMMs compute whole tiles, and whole waves of tiles, so their time rises in stairs (ADR 78). A step of so many
     * rows ends with a whole tile, and with a later one where that saves {@link #MIN_SAVING} of the time per row and
     * keeps the part of the target that {@link #maxRows} keeps.
     */
    private int wholeTiles(int maxRows, int most) {
        int best = maxRows;
        for (int end = (maxRows + TILE - 1) / TILE * TILE; end <= most && keepsTarget(end); end += TILE) {
            boolean sameTile = end - maxRows < TILE;
            if (sameTile || secondsPerRow(end) < (1 - MIN_SAVING) * secondsPerRow(best)) {
                best = end;
            }
        }
        return best;
    }

    /** Seconds of a layer's GEMMs per row of sub-batch 0; those of sub-batch 1 take as long for a tile as for a row. */
    private double secondsPerRow(int rows) {
        return (predictor.cost().linear(rows) + predictor.cost().linear(TILE)) / rows;
    }

    /**
     * Whether the CPU's attention of all host tokens in a layer takes no more than so many seconds.
     *
     * @param hostTokens those on the host, and others, which count as the mean of these
     */
    private boolean allHide(SchedulerState state, int hostTokens, double seconds) {
        long context = 0;
        int tokens = 0;
        for (Sequence sequence : state.host()) {
            context += state.context(sequence);
            if (++tokens % TILE == 0 && predictor.cost().cpuAttention(tokens, context) > seconds) {
                return false;
            }
        }
        return tokens == 0 || predictor.cost().cpuAttention(tokens, context) * hostTokens / tokens <= seconds;
    }

    /** Whether the GEMMs of a step of so many rows take no more than their part of the target per token. */
    private boolean keepsTarget(int rows) {
        double target = rules.defaultTargets().perTokenNanos() / 1e9;
        return target == 0 || predictor.cost().layers() * predictor.cost().linear(rows) <= MAX_PROMPT_TIME * target;
    }

    /**
     * NEO's step 4. A token goes to sub-batch 1 if its attention hides there behind the linear stage of sub-batch 0,
     * else to sub-batch 0 if it hides there, else it waits for the next step. If the step has nothing else, one token
     * goes anyway: otherwise host sequences would never run without GPU work.
     *
     * @return the sequences that wait
     */
    private List<Sequence> cpuDecodes(StepDraft draft, List<Sequence> queue) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        List<Sequence> left = new ArrayList<>();
        boolean room = true;
        int seen = 0;
        for (Sequence sequence : queue) {
            seen++;
            if (room && !HostTier.canGrow(draft, sequence)) {
                continue;
            }
            if (!room) {
                left.add(sequence);
            } else if (predictor.hidesInOne(zero, one, draft.state().context(sequence))
                    && paysForTile(draft, 1, queue.size() - seen)) {
                draft.add(1, sequence, 1, AttentionSite.CPU_FROM_HOST);
            } else if (zero.rows() == 0
                    || predictor.hidesInZero(zero, one, draft.state().context(sequence))
                            && paysForTile(draft, 0, queue.size() - seen)) {
                draft.add(0, sequence, 1, AttentionSite.CPU_FROM_HOST);
            } else {
                left.add(sequence);
                room = predictor.hidesInOne(zero, one, 1) || predictor.hidesInZero(zero, one, 1);
            }
        }
        return left;
    }

    /**
     * Whether a host token is worth what the GEMMs of its sub-batch take longer. Its row can begin a tile, which costs
     * as much as all of its rows: then the tokens that are left and hide there must raise the requests per second.
     *
     * @param left tokens after this one
     */
    private boolean paysForTile(StepDraft draft, int batch, int left) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        int rows = draft.load(batch).rows();
        Load measured = one.cpuRows() > 0 ? one : zero;
        if (rows == 0 || rows % TILE != 0 || measured.cpuRows() == 0 || !deviations.has(Deviation.WHOLE_TILES)) {
            return true;
        }
        double each = predictor.cpuAttention(measured) / measured.cpuRows();
        double longer = predictor.cost().linear(rows + 1) - predictor.cost().linear(rows);
        double slack = batch == 0 ? predictor.slackInZero(zero, one) : predictor.slackInOne(zero, one);
        double hide = Math.min(slack / each, left + 1);
        return hide * (predictor.linear(zero) + predictor.linear(one)) >= (zero.requests() + one.requests()) * longer;
    }

    /**
     * Step 4 of NEO's artifact. Each token goes to the sub-batch whose slack condition has more room. A token that does
     * not hide there waits, and so do all later ones with as much context. Without KV on the GPU every token is taken.
     *
     * @return the sequences that wait
     */
    private List<Sequence> alternatingDecodes(StepDraft draft, List<Sequence> queue) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        List<Sequence> left = new ArrayList<>();
        int misfit = Integer.MAX_VALUE;
        int batch = 1;
        for (Sequence sequence : queue) {
            if (!HostTier.canGrow(draft, sequence)) {
                continue;
            }
            int length = draft.state().context(sequence);
            boolean hides = length < misfit
                    && (batch == 1
                            ? predictor.hidesInOne(zero, one, length)
                            : predictor.hidesInZero(zero, one, length));
            if (gpuKv && !hides && zero.rows() > 0) {
                misfit = Math.min(misfit, length);
                left.add(sequence);
                continue;
            }
            // a step without other work begins with one token in sub-batch 0
            draft.add(gpuKv && !hides ? 0 : batch, sequence, 1, AttentionSite.CPU_FROM_HOST);
            batch = predictor.slackInOne(zero, one) > predictor.slackInZero(zero, one) ? 1 : 0;
        }
        return left;
    }

    /**
     * Adds tokens that do not hide, to either sub-batch, while each raises the requests per second; the paper does not.
     * Where few tokens hide, waiting for one more costs the GPU less than half a step.
     */
    private void addWaitedFor(StepDraft draft, List<Sequence> left) {
        Load zero = draft.load(0);
        Load one = draft.load(1);
        if (zero.cpuRows() + one.cpuRows() == 0) {
            return;
        }
        double rate = (zero.requests() + one.requests()) / predictor.pipeline(zero, one);
        for (Sequence sequence : left) {
            if (!HostTier.canGrow(draft, sequence)) {
                continue;
            }
            double inZero = predictor.pipelineWith(zero, one, 0, draft.state().context(sequence));
            double inOne = predictor.pipelineWith(zero, one, 1, draft.state().context(sequence));
            double raised = (zero.requests() + one.requests() + 1) / Math.min(inZero, inOne);
            if (raised <= rate) {
                return;
            }
            draft.add(inOne <= inZero ? 1 : 0, sequence, 1, AttentionSite.CPU_FROM_HOST);
            rate = raised;
        }
    }

    /**
     * NEO's step 5 postpones prefill offloads, the last first, while the inequalities hold without them. With an empty
     * host they always hold, so that only swaps bring sequences there; {@link Deviation#STEP_5_KEEPS} has other rules.
     */
    private void reducePrefills(StepDraft draft) {
        int wanted = deviations.has(Deviation.SAME_LAYER)
                ? SameLayer.best(draft, this)
                        .map(SameLayer.BestHost::hostTokens)
                        .orElse(0)
                : 0;
        for (int index : HostTier.startingPrefillOffloads(draft)) {
            Row row = draft.rows(0).get(index);
            if (rules.isUrgent(row.sequence(), draft.state().now())
                    || draft.rows(0).size() + draft.rows(1).size() == 1) {
                continue;
            }
            Load zero = draft.load(0);
            zero.add(row, -1);
            boolean hidden = predictor.hides(zero, draft.load(1));
            String rule = deviations.value(Deviation.STEP_5_KEEPS);
            boolean keeps = switch (rule) {
                case "none" -> false;
                case "128-tokens" -> zero.rows() < ARTIFACT_MIN_ROWS;
                case "idle-cpu" ->
                    predictor.cpuAttention(draft.load(1)) < MIN_BUSY * predictor.linear(zero)
                            || draft.hostSequences() <= wanted;
                default -> throw new IllegalStateException(Deviation.STEP_5_KEEPS.flag() + "=" + rule);
            };
            zero.add(row, 1);
            if (!hidden || keeps) {
                return;
            }
            draft.removePrefillOffload(index);
        }
    }

    /**
     * The gpu-only schedule of NEO's step 6: sub-batch 0 without its CPU decodes, and in the artifact without the
     * prompts for the host that begin beyond the first tokens.
     *
     * @return the work of the schedule
     */
    public Load gpuOnlySchedule(StepDraft draft) {
        Load gpu = StepPredictor.withoutCpuRows(draft, 0);
        strippedPrompts(draft, gpu);
        return gpu;
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
    public double uncounted(StepDraft draft, int cpuRows, long cpuTokens) {
        int gpuRows = draft.load(0).gpuRows() + draft.load(1).gpuRows();
        if (gpuRows == 0 || !deviations.has(Deviation.STEP_6_COUNTS_CONTEXT)) {
            return 0;
        }
        double gpuContext = (double) (draft.load(0).gpuTokens() + draft.load(1).gpuTokens()) / gpuRows;
        double counted = cpuTokens / gpuContext;
        return counted < SHORT_CONTEXT * cpuRows ? cpuRows - counted : 0;
    }

    /** Makes a draft the gpu-only schedule of step 6. */
    public void makeGpuOnly(StepDraft draft) {
        Load gpu = StepPredictor.withoutCpuRows(draft, 0);
        strippedPrompts(draft, gpu).forEach(draft::removePrefillOffload); // the last index first
        draft.removeCpuRows();
        draft.shape(Shape.GPU_ONLY);
    }

    /** Removes the stripped prompts from a load, and returns their indices in sub-batch 0, the last first. */
    private List<Integer> strippedPrompts(StepDraft draft, Load gpu) {
        List<Integer> stripped = new ArrayList<>();
        if (!deviations.has(Deviation.STEP_6_STRIPS_PROMPTS)) {
            return stripped;
        }
        for (int index : HostTier.startingPrefillOffloads(draft)) {
            Row row = draft.rows(0).get(index);
            if (gpu.rows() - row.rows() < ARTIFACT_MIN_ROWS) {
                return stripped;
            }
            gpu.add(row, -1);
            stripped.add(index);
        }
        return stripped;
    }
}
