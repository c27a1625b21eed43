package dev.tandem.engine.strategy;

import dev.tandem.engine.kv.Place;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.Shape;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.Strategy.InFlight;
import java.util.List;

/**
 * {@code async-overlap} (APEX §3.3): one unified batch; host rows pass through it layer by layer, each as soon as its
 * attention is there, and the GPU never waits.
 *
 * <p>Each row in flight asks the CPU for one layer's attention a step, so rows are admitted while all of them take the
 * CPU no longer than a step takes the GPU: the step at hand or, where host rows are spread over the layers, the mean step, which
 * prompts make longer. In short steps the CPU then falls behind, in long ones it catches up, and is never idle.
 *
 * <p>Owned by: engine thread.
 */
final class AsyncOverlap implements Policy {
    /** Slots are somewhat more than the mean a layer: rows do not come evenly, and one that finds no slot comes a step later. */
    private static final double SLOTS_TO_MEAN = 1.25;
    /** Row slots a layer: buckets, because a captured step is made for one of them. */
    private static final int[] BUCKETS = {8, 16, 32, 64, 128, 256};
    /** Weight of the newest step in the mean: prompts come every ten steps or so. */
    private static final double NEWEST = 1 / 64.0;

    /** Mean steps that the CPU's work for one step may take: more than one, or it would be idle in every step that prompts make longer. */
    private static final double AHEAD = 1.5;

    private final Budget budget;
    private final StepPredictor predictor;
    private final TierRules rules;
    private final boolean chunked;
    private final boolean cohort;
    private final InFlight limits;
    private final int ridingRows;
    /** Seconds that the GPU needs for the mean step without its tokens in flight. */
    private double meanStep;

    /**
     * @param chunked whether prompts may be cut
     * @param cohort whether all host rows enter layer 0 together and no more enter until they are through, as in the paper;
     *     else some enter in each step, so that every layer has its share
     * @param limits of the executor
     * @param ridingRows rows of a step up to which prompts ride almost for free; 0 to compute them at once
     */
    AsyncOverlap(
            Budget budget, StepPredictor predictor, TierRules rules, boolean chunked, boolean cohort, InFlight limits, int ridingRows) {
        this.budget = budget;
        this.predictor = predictor;
        this.rules = rules;
        this.chunked = chunked;
        this.cohort = cohort;
        this.limits = limits;
        this.ridingRows = ridingRows;
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        StepDraft draft = gpuSide(state);
        admit(draft);
        int flying = state.inFlight().size() + draft.admissions().size();
        draft.shape(flying > 0 ? Shape.ASYNC : Shape.GPU_ONLY);
        why.because(
                "async-overlap: %d rows on the GPU, %d of them decode; %d in flight, %d of them admitted now; prompts land with %d tokens",
                draft.load(0).rows(), draft.load(0).gpuRows(), flying, draft.admissions().size(), draft.load(0).landingTokens());
        return draft;
    }

    /** A step in which rows in flight go on and none enters. */
    StepDraft landing(SchedulerState state, Decision why) {
        why.because("apex: %d rows in flight land, none enters", state.inFlight().size());
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
        int hostRows = state.host().size() + state.inFlight().size();
        long hostTokens = hostTokens(state);
        if (!kept.evicted()) {
            rules.rotate(draft);
            if (state.waiting().isEmpty() || rules.missesTargets() || !cpuKeepsUp(draft, hostRows, hostTokens)) {
                GpuTier.swapIn(draft);
            }
        }
        Prefills prefills = new Prefills(
                chunked, true,
                sequence -> rules.mayLiveOnHost(draft, sequence)
                        && cpuKeepsUp(draft, hostRows + 1, hostTokens + sequence.length()),
                ridingRows);
        // long steps would leave the CPU without work: each row in flight has one layer's for it in a step
        int mostRows = prefills.mostRows(draft, kept.unfinished(), slots(state), landable(draft, hostRows, hostTokens));
        prefills.resume(draft, kept.unfinished(), mostRows);
        prefills.start(draft, draft.gpuSequences() + hostRows, 0, mostRows);
        return draft;
    }

    /** Slots of a layer for the tokens that are in flight now. */
    int slots(SchedulerState state) {
        return state.inFlight().isEmpty() ? 0 : bucket(evenly(state.inFlight().size()));
    }

    /**
     * Tokens of waiting prompts for which the host has room, not the GPU, and without which the CPU would be idle even if all steps
     * were alike; not counted beyond what a step could hold.
     */
    private long landable(StepDraft draft, int hostRows, long hostTokens) {
        long tokens = 0;
        int rows = hostRows;
        int gpuBlocks = draft.freeGpu() - draft.gpuSequences();
        int blocks = draft.freeHost() - hostRows;
        int places = budget.maxSequences() - draft.gpuSequences() - hostRows;
        for (Sequence sequence : draft.state().waiting().view()) {
            int stays = draft.state().kv().blocksFor(Place.GPU, sequence.length());
            if (stays <= gpuBlocks && draft.roomToGrow(Place.GPU, sequence)) {
                gpuBlocks -= stays;
                places--;
                continue;
            }
            blocks -= draft.state().kv().blocksFor(Place.HOST, sequence.length());
            boolean room = blocks >= 0 && --places >= 0 && cpuKeepsUp(draft, ++rows, hostTokens + tokens + sequence.length(), 1);
            if (!room || tokens > budget.maxBatchTokens()) {
                break;
            }
            tokens += sequence.length();
        }
        return tokens;
    }

    private static long hostTokens(SchedulerState state) {
        long tokens = 0;
        for (Sequence sequence : state.host()) {
            tokens += sequence.length();
        }
        for (Sequence sequence : state.inFlight()) {
            tokens += sequence.length();
        }
        return tokens;
    }

    /** One layer's attention of all rows in flight within the GPU's time for a step. */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens) {
        return cpuKeepsUp(draft, rows, tokens, AHEAD);
    }

    /** @param ahead mean steps that the CPU may take for a step's work */
    private boolean cpuKeepsUp(StepDraft draft, int rows, long tokens, double ahead) {
        double step = Math.max(predictor.gpuOnly(draft.load(0)), leastStep());
        return predictor.cost().flyingAttention(rows, tokens) <= (cohort ? step : Math.max(step, ahead * meanStep));
    }

    /** A step without a GPU row still reads the weights. */
    private double leastStep() {
        return predictor.cost().layers() * predictor.cost().linear(1);
    }

    /** Admits host rows to layer 0, those that have waited longest first. */
    void admit(StepDraft draft) {
        SchedulerState state = draft.state();
        int flying = state.inFlight().size();
        if (cohort && flying > 0) {
            draft.slots(flying);
            return;
        }
        List<Sequence> queue = HostTier.decodable(draft);
        queue.sort(HostTier.WAITED_LONGEST);
        int wanted = cohort ? queue.size() : share(queue.size() + flying);
        int most = Math.min(Math.min(wanted, limits.slotsPerLayer()), limits.most() - flying);
        long tokens = 0;
        for (Sequence sequence : state.inFlight()) {
            tokens += sequence.length();
        }
        for (Sequence sequence : queue) {
            int admitted = draft.admissions().size();
            boolean first = flying + admitted == 0;
            if (admitted >= most || !first && !cpuKeepsUp(draft, flying + admitted + 1, tokens + sequence.length())) {
                break;
            }
            if (HostTier.canGrow(draft, sequence)) {
                draft.admit(sequence);
                tokens += sequence.length();
            }
        }
        int admitted = draft.admissions().size();
        draft.slots(cohort ? admitted : Math.max(bucket(admitted), bucket(evenly(flying + admitted))));
    }

    /** An even share of all host rows for each layer, and at least as many as keeps the smallest bucket full. */
    private int share(int rows) {
        return Math.max(BUCKETS[0], (rows + predictor.cost().layers() - 1) / predictor.cost().layers());
    }

    private int evenly(int flying) {
        return evenly(flying, predictor.cost().layers());
    }

    /** Slots of a layer for so many rows in flight, spread over the layers. */
    static int evenly(int flying, int layers) {
        return Math.max(BUCKETS[0], (int) Math.ceil(SLOTS_TO_MEAN * flying / layers));
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
