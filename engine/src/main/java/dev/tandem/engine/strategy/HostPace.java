package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;

/** How fast the sequences on the host would get their tokens, if a strategy kept a number of them there. */
interface HostPace {
    /**
     * Expected seconds between two tokens of a host sequence.
     *
     * @param draft of the step at hand
     * @param sequences on the host, at least 1
     * @param tokens of context of all of them
     */
    double secondsPerToken(StepDraft draft, int sequences, long tokens);

    /** Tokens of context that count for the host's sequences with one more. */
    default long context(StepDraft draft, Sequence candidate) {
        return draft.maxHostContext(candidate);
    }

    /** Max expected time per token with which a sequence may join the host, in its targets. */
    default double max() {
        return TierRules.MAX_PACE;
    }
}
