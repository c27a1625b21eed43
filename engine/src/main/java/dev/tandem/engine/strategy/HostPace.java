package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;

/** Which targets per token the sequences on the host would keep, if a strategy kept a number of them there. */
interface HostPace {
    /**
     * The shortest target per token that the host's sequences are expected to keep, in seconds. It is the expected time
     * between two tokens, with the strategy's margin for how much that time varies.
     *
     * @param draft of the step at hand
     * @param sequences on the host, at least 1
     * @param tokens of context of all of them
     */
    double shortestTarget(StepDraft draft, int sequences, long tokens);

    /** Tokens of context that count for the host's sequences with one more. */
    default long context(StepDraft draft, Sequence candidate) {
        return draft.maxHostContext(candidate);
    }
}
