package dev.tandem.engine.strategy;

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
 * {@code async-overlap} (APEX §3.3): one unified batch; host tokens pass through it layer by layer, each as soon as its
 * attention is there, and the GPU never waits.
 *
 * <p>Each in-flight token asks the CPU for one layer's attention per step, so tokens are admitted while all of them
 * take the CPU no longer than a step takes the GPU: the step at hand or, where host tokens are spread over the layers,
 * the mean step, which prompts make longer. In short steps the CPU then falls behind, in long ones it catches up, and
 * is never idle.
 *
 * <p>Owned by: engine thread.
 */
public final class AsyncOverlap implements Policy {
    /**
     * Slots are somewhat more than the mean per layer: tokens do not come evenly, and one that finds no slot comes a
     * step later.
     */
    private static final double SLOTS_TO_MEAN = 1.25;
    /** Slots per layer: buckets, because a captured graph is made for one of them. */
    private static final int[] BUCKETS = {8, 16, 32, 64, 128, 256};
    /** Weight of the newest step in the mean: prompts come every ten steps or so. */
    private static final double NEWEST = 1 / 64.0;

    /**
     * Mean steps that the CPU's work for one step may take: more than one, or it would be idle in every step that
     * prompts make longer.
     */
    private static final double AHEAD = 1.5;
    /**
     * Mean host times per token after which a host sequence goes before those that arrived earlier. Simulated on
     * {@code h200-2req}, osc: 2 gives 980 output tokens/s and 757 ms between tokens (p99), 4 gives 981 and 1170 ms;
     * always the longest-waiting first gives 956 and 372 ms.
     */
    private static final double OVERDUE = 2;

    private final Budget budget;
    private final StepPredictor predictor;
    private final TierRules rules;
    private final boolean chunked;
    private final boolean cohort;
    private final InFlightLimits limits;
    private final int piggybackedTokens;
    /** Seconds that the GPU needs for the mean step without its tokens in flight. */
    private double meanStep;

    /**
     * @param chunked whether prompts may be cut
     * @param cohort whether all host tokens enter layer 0 together and no more enter until they are through, as in the
     *     paper; else some enter in each step, so that every layer has its share
     * @param limits of the executor
     * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 to compute prompts at once
     */
    public AsyncOverlap(
            Budget budget,
            StepPredictor predictor,
            TierRules rules,
            boolean chunked,
            boolean cohort,
            InFlightLimits limits,
            int piggybackedTokens) {
        this.budget = budget;
        this.predictor = predictor;
        this.rules = rules;
        this.chunked = chunked;
        this.cohort = cohort;
        this.limits = limits;
        this.piggybackedTokens = piggybackedTokens;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = gpuSide(state);
        admit(draft);
        int inFlight = state.inFlight().size() + draft.admissions().size();
        draft.shape(inFlight > 0 ? Shape.ASYNC : Shape.GPU_ONLY);
        why.because(
                "async-overlap: %d rows on the GPU, %d of them decode; %d in flight, %d of them admitted now;"
                        + " %d prompt tokens go to the host",
                draft.load(0).rows(),
                draft.load(0).gpuRows(),
                inFlight,
                draft.admissions().size(),
                draft.load(0).prefillOffloadTokens());
        return draft;
    }

    /** A step in which in-flight tokens go on and none enters. */
    public StepDraft draining(SchedulerState state, Decision why) {
        why.because(
                "apex: %d in-flight tokens return, none enters",
                state.inFlight().size());
        StepDraft draft = gpuSide(state);
        draft.slots(bucket(evenly(state.inFlight().size())));
        draft.shape(Shape.ASYNC);
        return draft;
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        rules.completed(draft);
        meanStep += (meanStep == 0 ? 1 : NEWEST) * (predictor.gpuOnly(draft.load(0)) - meanStep);
    }

    private StepDraft gpuSide(SchedulerState state) {
        StepDraft draft = new StepDraft(state, budget);
        GpuTier.Kept kept = GpuTier.decodes(draft, s -> draft.fitsHost(s) && rules.mayLiveOnHost(draft, s));
        int hostTokens = state.host().size() + state.inFlight().size();
        long hostContext = hostContext(state);
        if (!kept.evicted()) {
            rules.rotate(draft);
            if (state.waiting().isEmpty() || rules.missesTargets() || !cpuKeepsUp(draft, hostTokens, hostContext)) {
                GpuTier.swapIn(draft);
            }
        }
        Prefills prefills = new Prefills(
                chunked,
                true,
                sequence -> rules.mayLiveOnHost(draft, sequence)
                        && cpuKeepsUp(draft, hostTokens + 1, hostContext + sequence.length()),
                piggybackedTokens);
        // long steps would leave the CPU without work: each in-flight token has one layer's for it in a step
        int maxRows = prefills.maxRows(
                draft, kept.unfinished(), slots(state), canOffloadPrefill(draft, hostTokens, hostContext));
        prefills.resume(draft, kept.unfinished(), maxRows);
        prefills.start(draft, draft.gpuSequences() + hostTokens, 0, maxRows);
        return draft;
    }

    /** Slots of a layer for the tokens that are in flight now. */
    int slots(SchedulerState state) {
        return state.inFlight().isEmpty() ? 0 : bucket(evenly(state.inFlight().size()));
    }

    /**
     * Tokens of waiting prompts for which the host has room, not the GPU, and without which the CPU would be idle even
     * if all steps were as long as the mean; not counted beyond what a step could hold.
     */
    private long canOffloadPrefill(StepDraft draft, int hostTokens, long hostContext) {
        long tokens = 0;
        int rows = hostTokens;
        int gpuBlocks = draft.freeGpu() - draft.gpuSequences();
        int blocks = draft.freeHost() - hostTokens;
        int freeSequences = budget.maxSequences() - draft.gpuSequences() - hostTokens;
        for (Sequence sequence : draft.state().waiting().view()) {
            int stays = draft.state().kv().blocksFor(KvTier.GPU, sequence.length());
            if (stays <= gpuBlocks && draft.roomToGrow(KvTier.GPU, sequence)) {
                gpuBlocks -= stays;
                freeSequences--;
                continue;
            }
            blocks -= draft.state().kv().blocksFor(KvTier.HOST, sequence.length());
            boolean room = blocks >= 0
                    && --freeSequences >= 0
                    && cpuKeepsUp(draft, ++rows, hostContext + tokens + sequence.length(), 1);
            if (!room || tokens > budget.maxBatchTokens()) {
                break;
            }
            tokens += sequence.length();
        }
        return tokens;
    }

    private static long hostContext(SchedulerState state) {
        long tokens = 0;
        for (Sequence sequence : state.host()) {
            tokens += sequence.length();
        }
        for (Sequence sequence : state.inFlight()) {
            tokens += sequence.length();
        }
        return tokens;
    }

    /** One layer's attention of all in-flight tokens within the GPU's time for a step. */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens) {
        return cpuKeepsUp(draft, rows, tokens, AHEAD);
    }

    /** @param ahead mean steps that the CPU may take for a step's work */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens, double ahead) {
        double step = Math.max(predictor.gpuOnly(draft.load(0)), minStep());
        return predictor.cost().inFlightAttention(rows, tokens) <= (cohort ? step : Math.max(step, ahead * meanStep));
    }

    /** A step without a GPU row still reads the weights. */
    private double minStep() {
        return predictor.cost().layers() * predictor.cost().linear(1);
    }

    /** Admits host tokens to layer 0: those that are overdue, then in order of arrival. */
    void admit(StepDraft draft) {
        SchedulerState state = draft.state();
        int inFlight = state.inFlight().size();
        if (cohort && inFlight > 0) {
            draft.slots(inFlight);
            return;
        }
        List<Sequence> queue = overdueFirst(HostTier.decodable(draft), state.now());
        int wanted = cohort ? queue.size() : share(queue.size() + inFlight);
        int max = Math.min(Math.min(wanted, limits.slotsPerLayer()), limits.max() - inFlight);
        long tokens = 0;
        for (Sequence sequence : state.inFlight()) {
            tokens += sequence.length();
        }
        for (Sequence sequence : queue) {
            int admitted = draft.admissions().size();
            boolean first = inFlight + admitted == 0;
            if (admitted >= max || !first && !cpuKeepsUp(draft, inFlight + admitted + 1, tokens + sequence.length())) {
                break;
            }
            if (HostTier.canGrow(draft, sequence)) {
                draft.admit(sequence);
                tokens += sequence.length();
            }
        }
        int admitted = draft.admissions().size();
        draft.slots(cohort ? admitted : Math.max(bucket(admitted), bucket(evenly(inFlight + admitted))));
    }

    /**
     * In order of arrival sequences end early and hold their KV for a short time, but those that came last would have
     * no token for as long as the others live. Before the host's time per token is known, all are overdue.
     */
    private List<Sequence> overdueFirst(List<Sequence> queue, long now) {
        double lastToken = now - OVERDUE * rules.hostPerToken();
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

    /** An even share of all host tokens for each layer, and at least as many as keeps the smallest bucket full. */
    private int share(int rows) {
        return Math.max(
                BUCKETS[0],
                (rows + predictor.cost().layers() - 1) / predictor.cost().layers());
    }

    private int evenly(int inFlight) {
        return evenly(inFlight, predictor.cost().layers());
    }

    /** Slots of a layer for so many in-flight tokens, spread over the layers. */
    static int evenly(int inFlight, int layers) {
        return Math.max(BUCKETS[0], (int) Math.ceil(SLOTS_TO_MEAN * inFlight / layers));
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
