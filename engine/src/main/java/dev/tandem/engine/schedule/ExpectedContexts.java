package dev.tandem.engine.schedule;

import dev.tandem.engine.request.Sequence;
import java.util.Collection;
import java.util.List;

/**
 * The context that a sequence is expected to have while it decodes: that in the middle of its output, times
 * {@link #MARGIN}, at most that at its end. By it the host's pace is expected (ADR 136), and the GPU's KV where a part
 * of its blocks is kept free (ADR 147).
 *
 * <p>Until enough sequences have ended, outputs are as long as their limits allow. After that, a sequence is expected
 * to reach the mean output, and once it has, to run as long as those that ended later.
 *
 * <p>Owned by: engine thread, for one draft.
 */
final class ExpectedContexts {
    /**
     * Contexts by which the host's pace is expected, over those in the middle of outputs. The margin is on contexts,
     * because time that the CPU's attention hides behind does not vary with them. Simulated on an L4, reasoning, 160
     * ms, two seeds: with 1 within 0.8 of the target, 728 and 670 tokens/s, and a p99 of 155 and 232 ms; with 1.3
     * within 0.9, 717 and 699, 131 and 136 ms; with 1.3 within 0.94, 728 and 702, 142 and 211 ms.
     */
    private static final double MARGIN = 1.3;

    private final SchedulerState state;
    /** 0 where it is not known; negative until it is asked for. */
    private double meanOutput = -1;

    ExpectedContexts(SchedulerState state) {
        this.state = state;
    }

    /** Tokens of context of a sequence, without those behind windows: the mean over the layers. */
    int of(Sequence sequence) {
        return state.kv().span().tokens(length(sequence));
    }

    /** Tokens of context of a sequence, those behind windows included. */
    int length(Sequence sequence) {
        int soFar = sequence.outputLength();
        int prompt = sequence.length() - soFar;
        int limit = sequence.limit() - prompt;
        double mean = meanOutput();
        double output = mean == 0
                ? limit
                : Math.min(limit, Math.max(mean, soFar + state.outputs().remaining(soFar)));
        return (int) Math.min(MARGIN * (prompt + output / 2), prompt + output);
    }

    private double meanOutput() {
        if (meanOutput < 0) {
            int running = 0;
            long tokens = 0;
            for (Collection<Sequence> tier : List.of(state.gpu(), state.host(), state.inFlight())) {
                running += tier.size();
                for (Sequence sequence : tier) {
                    tokens += sequence.outputLength();
                }
            }
            meanOutput = state.outputs().meanWith(running, tokens);
        }
        return meanOutput;
    }
}
