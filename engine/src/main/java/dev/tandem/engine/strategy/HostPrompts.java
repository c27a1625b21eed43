package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.PiggybackedPrefill;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.GpuKvLimit;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Estimate;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.Locale;
import java.util.Set;
import java.util.function.Predicate;

/**
 * How prompts start on the host.
 *
 * <p>Host tokens hide behind long steps, and there prompts do without what piggybacking saves. Single steps show the
 * first and not the second, so they would fill the host even where a full one gains nothing.
 */
enum HostPrompts {
    /** None does: a full host would gain nothing. */
    NONE(false, true),
    /** None does: a full host would gain less than {@link #MIN_GAIN}, and it is empty or the queue lasts. */
    HARDLY_GAINS(false, true),
    /** Piggybacked on decodes, as on the GPU. */
    PIGGYBACKED(true, true),
    /** Piggybacked, though host tokens would hide behind long steps: the queue ends before these would have paid. */
    PIGGYBACKED_FOR_QUEUE_END(true, true),
    /** In steps as long as the budget and the target allow. */
    IN_LONG_STEPS(true, false),
    /** In long steps that hold up decodes; they have no more prompt tokens than come with the tokens of a step. */
    IN_BALANCE(true, false),
    /** None does: the queue ends before a full host would have paid, so prompts start as in gpu-only. */
    QUEUE_ENDS(false, true);

    /**
     * Min estimated gain for which an empty host is filled (ADR 134), or any in long steps, with a target per token:
     * though the queue ends soon, or while it lasts and decodes can carry prompts (ADR 133). For a queue that ends it
     * was found on five simulated whole runs that it mends or might harm. With 0.05 and 0.06 all have 0.998 of GPU-only
     * or more; 0.04 and 0.035 leave osc on an H200 at 0.97, and 0.15 at 0.98 (docs/results/constants.jsonl, ADR 112).
     */
    private static final double MIN_GAIN = 0.05;

    /**
     * The same without a target, where steps are longer. Of simulated whole runs of 60 requests without the guard, one
     * has less than 0.99 of GPU-only with 0.15, and two with 0.10 (ADR 112).
     */
    private static final double MIN_GAIN_WITHOUT_TARGET = 0.15;

    /** The gains that do not fill the host. */
    private static final String LESS_GAIN = String.format(
            Locale.ROOT,
            "gain less than %.0f %% (%.0f %% without a target per token)",
            100 * MIN_GAIN,
            100 * MIN_GAIN_WITHOUT_TARGET);

    /** Why a queue that ends does not fill the host in long steps. */
    private static final String QUEUE_ENDS_REASON = ", because two sub-batches would " + LESS_GAIN
            + " until the queue ends, which is within two windows, or after it, and the host holds no more sequences"
            + " than the GPU decodes";

    private final boolean start;
    private final boolean piggybacked;

    HostPrompts(boolean start, boolean piggybacked) {
        this.start = start;
        this.piggybacked = piggybacked;
    }

    /** Whether prompts start on the host. */
    boolean start() {
        return start;
    }

    /** Whether prompts are piggybacked on decodes, on either tier. */
    boolean piggybacked() {
        return piggybacked;
    }

    /** What the decision log says of a step besides the reason that it was chosen; empty for nothing. */
    String note() {
        return switch (this) {
            case NONE, PIGGYBACKED, IN_LONG_STEPS, IN_BALANCE -> "";
            case HARDLY_GAINS -> "no prompt starts on the host, because a full one would " + LESS_GAIN;
            case PIGGYBACKED_FOR_QUEUE_END -> "prompts stay piggybacked" + QUEUE_ENDS_REASON;
            case QUEUE_ENDS -> "no prompt starts on the host" + QUEUE_ENDS_REASON;
        };
    }

    /**
     * Chooses for a draft that has its GPU decodes.
     *
     * @param piggybacking what prompt tokens cost in decode steps; with {@link PiggybackedPrefill#NONE} they take long
     *     ones
     * @param kinds of steps that the strategy may make with a full host
     * @param limit of the GPU's KV, whose gain counts where it is more than a full GPU's
     */
    static HostPrompts of(
            StepDraft draft,
            StepPredictor predictor,
            TierRules rules,
            Set<Kind> kinds,
            PiggybackedPrefill piggybacking,
            GpuKvLimit limit) {
        if (piggybacking == PiggybackedPrefill.NONE) {
            return IN_LONG_STEPS;
        }
        if (!Prefills.piggybacks(draft, 0, piggybacking)) {
            return unlessQueueEnds(draft, predictor, rules, kinds, piggybacking, limit);
        }
        long target = rules.defaultTargets().perTokenNanos();
        Estimate best = SpeedupEstimate.best(predictor, kinds, target, draft).largerOf(limit);
        if (best.gain() <= 0) {
            return NONE;
        }
        if (best.gain() < minGain(target) && onHost(draft.state()) == 0) {
            return HARDLY_GAINS;
        }
        // an empty host has no tokens to hide behind long steps; as sequences end, the GPU itself may take the prompts
        boolean hides = best.kind() == Kind.HOST_TOKENS_IN_BOTH && onHost(draft.state()) > 0;
        // prompts of a full host that fit beside decodes cost less there than long steps save (ADR 132)
        if (!hides || Prefills.piggybacks(draft, best.hostTokens(), piggybacking)) {
            return PIGGYBACKED;
        }
        // a filled host pays for its long steps only later
        return switch (unlessQueueEnds(draft, predictor, rules, kinds, piggybacking, limit)) {
            case IN_BALANCE -> IN_BALANCE;
            case QUEUE_ENDS -> PIGGYBACKED_FOR_QUEUE_END;
            case HARDLY_GAINS -> HARDLY_GAINS;
            case NONE, PIGGYBACKED, PIGGYBACKED_FOR_QUEUE_END, IN_LONG_STEPS -> PIGGYBACKED;
        };
    }

    /**
     * How prompts start on the host where they take long steps. In these, running requests get few tokens, and after
     * the queue the run waits for the last of them. So a host must gain clearly, or more of it for a queue that ends,
     * or it stays filled once it holds more sequences than the GPU decodes: then the estimate is 0 in most steps.
     * Without that exception two runs of 1000/400 lost 4 % and 7 %; twice as many sequences gives the same
     * (docs/results/constants.jsonl).
     *
     * <p>The estimate is the gain of a full host, which must last once the queue has ended (ADR 131). The requests that
     * fill it have half of it on average, so a queue that is hardly longer gains less. The limit's gain is without
     * prompts, but it ends with the queue: then sequences return to the GPU.
     */
    private static HostPrompts unlessQueueEnds(
            StepDraft draft,
            StepPredictor predictor,
            TierRules rules,
            Set<Kind> kinds,
            PiggybackedPrefill piggybacking,
            GpuKvLimit limit) {
        SchedulerState state = draft.state();
        int gpuDecodes = draft.load(0).gpuRows();
        if (gpuDecodes == 0 || allFitGpu(draft)) {
            return IN_LONG_STEPS; // no decode is held up, or the GPU takes all prompts
        }
        if (state.host().size() > gpuDecodes) {
            return IN_BALANCE;
        }
        long target = rules.defaultTargets().perTokenNanos();
        if (rules.queueLasts(state)) {
            Predicate<Kind> gains = kind -> new SpeedupEstimate(predictor, kind, target)
                            .cautiousGain(draft)
                            .weighed()
                    >= minGain(target);
            if (!piggybacking.pays(gpuDecodes)
                    || gains.test(Kind.HOST_TOKENS_IN_BOTH)
                    || limit.gain() >= minGain(target)) {
                return IN_BALANCE;
            }
            return kinds.stream().anyMatch(gains) ? PIGGYBACKED : HARDLY_GAINS;
        }
        Estimate full = new SpeedupEstimate(predictor, Kind.HOST_TOKENS_IN_BOTH, target)
                .lastingGain(draft)
                .largerOf(limit);
        int onHost = onHost(state);
        int missing = Math.max(0, full.hostTokens() - onHost);
        // not all requests fit the GPU, so some wait
        double gain = full.gain() * (1 - 0.5 * missing / state.waiting().size());
        if (gain >= minGain(target)) {
            return IN_BALANCE;
        }
        return QUEUE_ENDS;
    }

    private static double minGain(long target) {
        return target > 0 ? MIN_GAIN : MIN_GAIN_WITHOUT_TARGET;
    }

    private static int onHost(SchedulerState state) {
        return state.host().size() + state.inFlight().size();
    }

    /** Whether the GPU has free blocks for all waiting prompts. */
    private static boolean allFitGpu(StepDraft draft) {
        int blocks = draft.freeGpu() - draft.gpuBlocksKeptFree();
        for (Sequence sequence : draft.state().waiting().view()) {
            blocks -= draft.missingOnGpu(sequence);
            if (blocks < 0) {
                return false;
            }
        }
        return true;
    }
}
