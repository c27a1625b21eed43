package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.SpeedupEstimate.Estimate;
import dev.tandem.engine.strategy.SpeedupEstimate.Kind;
import java.util.Locale;
import java.util.Set;

/**
 * How prompts start on the host.
 *
 * <p>Host tokens hide behind long steps, and there prompts do without what piggybacking saves. Single steps show the
 * first and not the second, so they would fill the host even where a full one gains nothing.
 */
enum HostPrompts {
    /** None does: a full host would gain nothing. */
    NONE(false, true),
    /** Piggybacked on decodes, as on the GPU. */
    PIGGYBACKED(true, true),
    /** In steps as long as the budget and the target allow, behind which host tokens hide. */
    IN_LONG_STEPS(true, false),
    /** None does, though prompts take long steps: the queue ends before a full host would have paid. */
    QUEUE_ENDS(false, false),
    /** None does for the same reason, and prompts are piggybacked: no host token could hide behind long steps. */
    QUEUE_ENDS_PIGGYBACKED(false, true);

    /**
     * Min estimated gain of two sub-batches for which the host is filled though the queue ends soon. It was found on
     * five simulated whole runs that it mends or might harm. With 0.05 and 0.06 all have 0.998 of GPU-only or more;
     * 0.04 and 0.035 leave osc on an H200 at 0.97 (docs/results/constants.jsonl).
     */
    private static final double MIN_GAIN = 0.05;

    /**
     * Min part of the prompts that could be piggybacked for which all are. Of 26 simulated whole runs, 0.15 changes
     * none by more than 0.2 %, and 0.5 costs two of 60 requests of 1000/200 3 % and four on A10Gs 4 to 9 %
     * (docs/results/constants.jsonl).
     */
    private static final double MIN_PIGGYBACKED = 0.25;

    private static final String QUEUE_ENDS_REASON = String.format(
            Locale.ROOT,
            "no prompt starts on the host, because two sub-batches would gain less than %.0f %% until the queue ends,"
                    + " which is within two windows, and the host holds no more sequences than the GPU decodes",
            100 * MIN_GAIN);

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
        return this == QUEUE_ENDS || this == QUEUE_ENDS_PIGGYBACKED ? QUEUE_ENDS_REASON : "";
    }

    /**
     * Chooses for a draft that has its GPU decodes.
     *
     * @param piggybackedTokens rows of a step up to which prompt tokens cost little; 0 for long steps in any case
     * @param kinds of steps that the strategy may make with a full host
     */
    static HostPrompts of(
            StepDraft draft, StepPredictor predictor, TierRules rules, Set<Kind> kinds, int piggybackedTokens) {
        if (piggybackedTokens == 0) {
            return IN_LONG_STEPS;
        }
        if (!Prefills.piggybacks(draft, 1, piggybackedTokens)) {
            return unlessQueueEnds(draft, predictor, rules, piggybackedTokens);
        }
        Estimate best = best(draft, predictor, rules, kinds);
        if (best.gain() <= 0) {
            return NONE;
        }
        // an empty host has no tokens to hide behind long steps; as sequences end, the GPU itself may take the prompts
        return best.kind() == Kind.HOST_TOKENS_IN_BOTH && onHost(draft.state()) > 0 ? IN_LONG_STEPS : PIGGYBACKED;
    }

    /**
     * How prompts that cannot all be piggybacked start on the host. In long steps running requests get few tokens, and
     * after the queue the run waits for the last of them. So a host without a clear gain pays only for a queue that
     * lasts, or once it holds more sequences than the GPU decodes: then the estimate is 0 in most steps. Without that
     * exception two runs of 1000/400 lost 4 % and 7 %; twice as many sequences gives the same
     * (docs/results/constants.jsonl).
     *
     * <p>The estimate is the gain of a full host. The requests that fill it have half of it on average, so a queue that
     * is hardly longer gains less. A host that stays empty has no tokens to hide, so prompts need no long steps.
     */
    private static HostPrompts unlessQueueEnds(
            StepDraft draft, StepPredictor predictor, TierRules rules, int piggybackedTokens) {
        SchedulerState state = draft.state();
        int gpuDecodes = draft.load(0).gpuRows();
        if (gpuDecodes == 0 // nothing to compare with
                || allFitGpu(draft)
                || rules.queueLasts(state)
                || state.host().size() > gpuDecodes) {
            return IN_LONG_STEPS;
        }
        Estimate full = best(draft, predictor, rules, Set.of(Kind.HOST_TOKENS_IN_BOTH));
        int onHost = onHost(state);
        int missing = Math.max(0, full.hostTokens() - onHost);
        // not all requests fit the GPU, so some wait
        double gain = full.gain() * (1 - 0.5 * missing / state.waiting().size());
        if (gain >= MIN_GAIN) {
            return IN_LONG_STEPS;
        }
        return onHost == 0 && Prefills.piggybacks(draft, MIN_PIGGYBACKED, piggybackedTokens)
                ? QUEUE_ENDS_PIGGYBACKED
                : QUEUE_ENDS;
    }

    private static int onHost(SchedulerState state) {
        return state.host().size() + state.inFlight().size();
    }

    /** Whether the GPU has free blocks for all waiting prompts. */
    private static boolean allFitGpu(StepDraft draft) {
        int blocks = draft.freeGpu();
        for (Sequence sequence : draft.state().waiting().view()) {
            blocks -= draft.missingOnGpu(sequence);
            if (blocks < 0) {
                return false;
            }
        }
        return true;
    }

    private static Estimate best(StepDraft draft, StepPredictor predictor, TierRules rules, Set<Kind> kinds) {
        return SpeedupEstimate.best(predictor, kinds, rules.defaultTargets().perTokenNanos(), draft);
    }
}
