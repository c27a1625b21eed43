package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code async-overlap} (APEX §3.3): one batch, which an offloaded token leaves after each QKV projection and rejoins
 * once the CPU has returned its attention output. The GPU never waits for the CPU.
 *
 * <p>Each in-flight token needs one layer's attention from the CPU per step. So tokens are admitted while the CPU needs
 * no longer for all of them than the GPU needs for a step. With a cohort that is the step at hand. Where host tokens
 * are spread over the layers it may also be the mean step, which prompts make longer: the CPU then falls behind in
 * short steps, catches up in long ones, and is never idle.
 *
 * <p>Owned by: engine thread.
 */
public final class AsyncOverlap implements Policy {
    /**
     * Slots per layer over the mean number of tokens per layer. Tokens do not return evenly, and a token without a free
     * slot waits for the next step.
     */
    private static final double SLOT_HEADROOM = 1.25;
    /** Possible slots per layer: each captured graph has a fixed number of slots. */
    private static final int[] BUCKETS = {8, 16, 32, 64, 128, 256};
    /** Weight of the newest step in the mean step: about one step in ten computes prompts. */
    private static final double MEAN_WEIGHT = 1 / 64.0;

    /**
     * Max time of the CPU's work for one step, in mean steps. With 1 or less the CPU would be idle in every step that
     * prompts make longer.
     */
    private static final double MAX_CPU_STEPS = 1.5;
    /**
     * A host sequence that has waited this many mean times per token is overdue and goes before earlier ones. Simulated
     * on {@code h200-2req}, osc: 2 gives 980 output tokens/s and 757 ms between tokens (p99), 4 gives 981 and 1170 ms.
     * The longest-waiting sequence always first gives 956 and 372 ms.
     */
    private static final double OVERDUE_AFTER = 2;

    /**
     * Max expected time per token, in targets, with which a sequence joins the host. The wait of a token in flight is
     * that of its steps, which varies less than a wait within a step. With {@link TierRules#MAX_PACE}, three of five
     * whole runs of 300 requests on an H100 are below 0.99 of GPU-only, because the host fills too slowly (ADR 110).
     */
    static final double MAX_JOIN_PACE = 1;
    /**
     * Max time per token of tokens in flight, in targets, before the strategy is left. Those that remain on the host
     * then stand still, which is slower than any pace, so a little over the target is allowed. Of 12 simulated windows
     * one has a p99 of the requests' mean times per token of 265 ms with 1, and all keep their 250 ms with 1.1.
     */
    private static final double MAX_PACE_IN_FLIGHT = 1.1;
    /**
     * Weight of the newest step in the mean step of tokens in flight. A target is a request's mean over all its tokens,
     * and prompts make some hundred steps in a row longer. 1/256, 1/1024 and 1/4096 differ by at most 2 % in 6
     * simulated windows; with 1/64 they have 5 to 9 % less (ADR 110).
     */
    private static final double IN_FLIGHT_MEAN_WEIGHT = 1 / 1024.0;

    private final Budget budget;
    private final StepPredictor predictor;
    private final TierRules rules;
    private final Deviations deviations;
    private final boolean cohort;
    private final InFlightLimits limits;
    private final PiggybackedPrefill piggybacking;
    private final HostPace inFlightPace = new InFlightPace();
    /** Mean seconds of the GPU for a step, without its in-flight tokens. */
    private double meanStep;
    /** The same of the steps since tokens began to be in flight; 0 after a step without any. */
    private double meanInFlightStep;

    /**
     * Creates a policy.
     *
     * @param budget of a step
     * @param predictor of the times of steps
     * @param rules which sequences may be on the host
     * @param deviations from the paper. There all host tokens enter layer 0 together, and the next enter once these
     *     have passed all layers: a cohort. With {@link Deviation#SPREAD_HOST_TOKENS} some enter in each step, so that
     *     the tokens are spread over the layers
     * @param limits of the executor
     * @param piggybacking what prompt tokens cost in decode steps; {@link PiggybackedPrefill#NONE} computes prompts at
     *     once
     */
    public AsyncOverlap(
            Budget budget,
            StepPredictor predictor,
            TierRules rules,
            Deviations deviations,
            InFlightLimits limits,
            PiggybackedPrefill piggybacking) {
        this.budget = budget;
        this.predictor = predictor;
        this.rules = rules;
        this.deviations = deviations;
        this.cohort = !deviations.has(Deviation.SPREAD_HOST_TOKENS);
        this.limits = limits;
        this.piggybacking = piggybacking;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = gpuSide(state, false);
        admit(draft);
        int inFlight = state.inFlight().size() + draft.admissions().size();
        draft.shape(inFlight > 0 ? Shape.ASYNC : Shape.GPU_ONLY);
        why.because(
                "async-overlap: %d rows on the GPU, %d of them decode; %d in-flight tokens, %d of them admitted now;"
                        + " KV of %d prompt tokens goes to the host",
                draft.load(0).rows(),
                draft.load(0).gpuRows(),
                inFlight,
                draft.admissions().size(),
                draft.load(0).prefillOffloadTokens());
        return draft;
    }

    /**
     * Whether the queue ends before a filled host has paid, and no default target bounds how long the last host tokens
     * take after it.
     */
    public boolean queueEndsWithoutTarget(SchedulerState state) {
        return rules.defaultTargets().perTokenNanos() == 0 && !rules.queueLasts(state);
    }

    /**
     * Drafts a step as if the host tokens with which the CPU keeps up were in flight; it serves comparison only and
     * must not be committed.
     */
    public StepDraft draftAsIfInFlight(SchedulerState state) {
        StepDraft draft = gpuSide(state, true);
        admit(draft, true);
        draft.shape(Shape.ASYNC);
        return draft;
    }

    /** Drafts a step in which in-flight tokens go on and no token is admitted. */
    public StepDraft draining(SchedulerState state, Decision why) {
        why.because(
                "apex: %d in-flight tokens return before the strategy changes, so none is admitted",
                state.inFlight().size());
        StepDraft draft = gpuSide(state, false);
        goOn(draft);
        return draft;
    }

    /** Has the in-flight tokens of a draft go on, and admits none. */
    void goOn(StepDraft draft) {
        int inFlight = draft.state().inFlight().size();
        if (cohort) {
            together(draft, inFlight);
        } else {
            draft.slots(bucket(slotsFor(inFlight)));
        }
        draft.shape(Shape.ASYNC);
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        rules.completed(draft, achieved);
        double step = predictor.gpuOnly(draft.load(0));
        meanStep += (meanStep == 0 ? 1 : MEAN_WEIGHT) * (step - meanStep);
        if (draft.shape() != Shape.ASYNC) {
            meanInFlightStep = 0;
        } else if (meanInFlightStep == 0) {
            meanInFlightStep = meanStep;
        } else {
            meanInFlightStep += IN_FLIGHT_MEAN_WEIGHT * (step - meanInFlightStep);
        }
    }

    /**
     * Whether host sequences would get their tokens within the default target. A token passes one layer per step, so
     * however few they are, each waits for as many steps as there are layers. Tokens begin to be in flight by the
     * newest steps (ADR 128), and go on by the mean of many.
     */
    public boolean keepsTarget(SchedulerState state) {
        return meanInFlightStep > 0 ? pace(meanInFlightStep) <= MAX_PACE_IN_FLIGHT : pace(meanStep(state)) <= 1;
    }

    /** Time per token of steps that take {@code seconds}, in default targets; 0 without a target. */
    private double pace(double seconds) {
        long target = rules.defaultTargets().perTokenNanos();
        return target == 0 ? 0 : predictor.cost().layers() * seconds * 1e9 / target;
    }

    /** Mean step, or before the first one the predicted step of the sequences on the GPU. */
    private double meanStep(SchedulerState state) {
        return meanStep > 0 ? meanStep : decodeStep(state);
    }

    /** Predicted step of the sequences on the GPU, without prompts. */
    private double decodeStep(SchedulerState state) {
        long tokens = 0;
        for (Sequence sequence : state.gpu()) {
            tokens += state.context(sequence);
        }
        return predictor.decodes(Math.max(1, state.gpu().size()), tokens);
    }

    /** A host token takes a step per layer, or as long as the CPU needs for it. */
    private final class InFlightPace implements HostPace {
        @Override
        public double shortestTarget(StepDraft draft, int sequences, long tokens) {
            double step = Math.max(meanStep(draft.state()), predictor.cost().inFlightAttention(sequences, tokens));
            return predictor.cost().layers() * step / MAX_JOIN_PACE;
        }
    }

    /** @param all whether prompts leave slots to all host tokens, also where some are in flight */
    private StepDraft gpuSide(SchedulerState state, boolean all) {
        StepDraft draft = new StepDraft(state, budget, deviations.has(Deviation.ROOM_TO_GROW));
        GpuTier.Kept kept = GpuTier.decodes(draft, draft::fitsHost);
        int hostTokens = state.host().size() + state.inFlight().size();
        long hostContext = hostContext(state);
        boolean limited = deviations.has(Deviation.LIMITED_HOST_PROMPTS);
        if (!kept.evicted()) {
            rules.rotate(draft, inFlightPace);
            if (!limited
                    || state.waiting().isEmpty()
                    || rules.missesTargets()
                    || !cpuKeepsUp(draft, hostTokens, hostContext)) {
                swapIn(draft);
            }
        }
        Prefills prefills = new Prefills(
                deviations.has(Deviation.CHUNKED_PREFILL),
                true,
                sequence -> rules.mayLiveOnHost(draft, sequence, inFlightPace)
                        && (!limited
                                || cpuKeepsUp(
                                        draft,
                                        hostTokens + 1,
                                        hostContext + draft.state().context(sequence))),
                piggybacking);
        // each in-flight token gives the CPU one layer's work per step, so the CPU would be idle in long steps
        long offloadable = Prefills.piggybacks(draft, 0, piggybacking)
                ? 0
                : offloadablePrefillTokens(draft, hostTokens, hostContext);
        int inFlight = state.inFlight().size();
        int entering = all || inFlight == 0 ? HostTier.candidates(draft).size() : 0;
        int slots = slots(Math.min(limits.max(), inFlight + entering));
        int maxRows = prefills.maxRows(draft, kept.unfinished(), slots, offloadable);
        prefills.resume(draft, kept.unfinished(), maxRows);
        prefills.start(draft, draft.gpuSequences() + hostTokens, 0, maxRows);
        return draft;
    }

    private void swapIn(StepDraft draft) {
        if (deviations.has(Deviation.RETURNS_IN_FLIGHT)) {
            GpuTier.swapInWithInFlight(draft);
        } else {
            GpuTier.swapIn(draft);
        }
    }

    /** Marks the draft's in-flight tokens as a cohort, which needs a slot for each at the layer where it stands. */
    private static void together(StepDraft draft, int tokens) {
        draft.slots(tokens);
        draft.cohort();
    }

    /** Slots per layer for so many tokens in flight; 0 for a cohort, which has them at its own layer alone. */
    int slots(int inFlight) {
        return cohort || inFlight == 0 ? 0 : bucket(slotsFor(inFlight));
    }

    /**
     * Tokens of waiting prompts that fit the host and not the GPU, and without which the CPU would be idle even if
     * every step were as long as the mean. Counting stops at the tokens of a step.
     */
    long offloadablePrefillTokens(StepDraft draft, int hostTokens, long hostContext) {
        long tokens = 0;
        long context = hostContext;
        int rows = hostTokens;
        int gpuBlocks = draft.freeGpu() - draft.nextBlocks(draft.gpuSequences());
        int blocks = draft.freeHost() - draft.nextBlocks(hostTokens);
        int freeSequences = budget.maxSequences() - draft.gpuSequences() - hostTokens;
        for (Sequence sequence : draft.state().waiting().view()) {
            int gpuBlocksNeeded = draft.missingOnGpu(sequence);
            if (gpuBlocksNeeded <= gpuBlocks && draft.roomToGrow(KvTier.GPU, sequence)) {
                gpuBlocks -= gpuBlocksNeeded;
                freeSequences--;
                continue;
            }
            blocks -= draft.state().kv().maxHeld(KvTier.HOST, sequence.length());
            boolean room = blocks >= 0
                    && --freeSequences >= 0
                    && cpuKeepsUp(draft, ++rows, context + draft.state().context(sequence), 1);
            if (!room || tokens > budget.maxBatchTokens()) {
                break;
            }
            tokens += sequence.length();
            context += draft.state().context(sequence);
        }
        return tokens;
    }

    private static long hostContext(SchedulerState state) {
        long tokens = 0;
        for (Sequence sequence : state.host()) {
            tokens += state.context(sequence);
        }
        for (Sequence sequence : state.inFlight()) {
            tokens += state.context(sequence);
        }
        return tokens;
    }

    /** Whether the CPU computes one layer's attention of all in-flight tokens in the GPU's time for a step. */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens) {
        return cpuKeepsUp(draft, rows, tokens, MAX_CPU_STEPS);
    }

    /** @param maxSteps mean steps that the CPU may take for the work of one step */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens, double maxSteps) {
        double step = Math.max(predictor.gpuOnly(draft.load(0)), minStep());
        return predictor.cost().inFlightAttention(rows, tokens)
                <= (cohort ? step : Math.max(step, maxSteps * meanStep));
    }

    /** Seconds of a step without GPU rows, which still reads the weights. */
    private double minStep() {
        return predictor.cost().layers() * predictor.cost().linear(1);
    }

    /** Admits host tokens to layer 0 in order of arrival, or overdue ones first. */
    void admit(StepDraft draft) {
        admit(draft, false);
    }

    /** @param all whether to admit in one step all tokens with which the CPU keeps up in mean steps */
    private void admit(StepDraft draft, boolean all) {
        SchedulerState state = draft.state();
        int inFlight = state.inFlight().size();
        if (cohort && inFlight > 0) {
            together(draft, inFlight);
            return;
        }
        List<Sequence> decodable = HostTier.decodable(draft);
        List<Sequence> queue =
                deviations.has(Deviation.LONGEST_WAITING_FIRST) ? overdueFirst(decodable, state.now()) : decodable;
        int wanted = cohort || all ? queue.size() : admissionsPerStep(queue.size() + inFlight);
        int perStep = all ? wanted : Math.min(wanted, limits.slotsPerLayer());
        int max = Math.min(perStep, limits.max() - inFlight);
        double maxSteps = all ? 1 : MAX_CPU_STEPS;
        long tokens = 0;
        for (Sequence sequence : state.inFlight()) {
            tokens += state.context(sequence);
        }
        for (Sequence sequence : queue) {
            int admitted = draft.admissions().size();
            boolean first = inFlight + admitted == 0;
            if (admitted >= max
                    || !first
                            && !cpuKeepsUp(
                                    draft, inFlight + admitted + 1, tokens + state.context(sequence), maxSteps)) {
                break;
            }
            if (HostTier.canGrow(draft, sequence)) {
                draft.admit(sequence);
                tokens += state.context(sequence);
            }
        }
        int admitted = draft.admissions().size();
        if (cohort) {
            together(draft, admitted);
        } else {
            int atLayerZero = all ? 0 : admitted;
            draft.slots(Math.max(bucket(atLayerZero), bucket(slotsFor(inFlight + admitted))));
        }
    }

    /**
     * Orders by arrival, except that overdue sequences come first. In order of arrival sequences end early and hold
     * their KV for a short time, but the last ones would get no token until others have ended. All are overdue before
     * the host's time per token is known.
     */
    private List<Sequence> overdueFirst(List<Sequence> queue, long now) {
        double lastToken = now - OVERDUE_AFTER * rules.hostNanosPerToken();
        List<Sequence> ordered = new ArrayList<>(queue.size());
        List<Sequence> others = new ArrayList<>();
        for (Sequence sequence : queue) {
            (sequence.timings().shiftedByPriority(sequence.timings().lastTokenNanos()) < lastToken ? ordered : others)
                    .add(sequence);
        }
        ordered.sort(HostTier.WAITED_LONGEST);
        ordered.addAll(others);
        return ordered;
    }

    /** Max tokens to admit per step: an equal part of all host tokens per layer, and at least the smallest bucket. */
    private int admissionsPerStep(int rows) {
        return Math.max(
                BUCKETS[0],
                (rows + predictor.cost().layers() - 1) / predictor.cost().layers());
    }

    private int slotsFor(int inFlight) {
        return slotsFor(inFlight, predictor.cost().layers());
    }

    /** Slots per layer that in-flight tokens need when they are spread over the layers. */
    static int slotsFor(int inFlight, int layers) {
        return Math.max(BUCKETS[0], (int) Math.ceil(SLOT_HEADROOM * inFlight / layers));
    }

    private int bucket(int wanted) {
        for (int bucket : BUCKETS) {
            if (bucket >= wanted) {
                return Math.min(bucket, limits.slotsPerLayer());
            }
        }
        return Math.min(BUCKETS[BUCKETS.length - 1], limits.slotsPerLayer());
    }
}
