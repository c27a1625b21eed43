package dev.tandem.engine.strategy;

import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;

/**
 * Decides when a sequence returns to the GPU from a host whose attention makes steps late (ADR 146). A host that has
 * become slower is late until enough of its sequences have ended, which takes minutes, while the GPU keeps room free.
 *
 * <p>Late is a step without prompts that is predicted to miss the default target, with the contexts of now. Tokens in
 * flight and unfinished prompts do not count.
 */
final class HostReturn {
    /**
     * Min time by which a step is predicted to be shorter without a host sequence, over what the CPU's attention of it
     * takes, for the sequence to return. On an imitated L4 whose workers are late at times, 0 has 396 tokens/s and a
     * p99 of 194 ms, 0.3 has 420 and 181, 0.5 has 429 and 165, and 0.6 has 431 and 165; without returns 433 and 168
     * (simulated, trial builds but for 0.5, ADR 146).
     */
    private static final double MIN_SAVING_OF_RETURN = 0.5;

    private HostReturn() {}

    /**
     * Swaps in the host sequence of most context, if the GPU has room, steps would else be late, and they are predicted
     * to become enough shorter. Not while tokens are in flight.
     *
     * @param draft which keeps no GPU blocks free
     * @param targetNanos default target per token
     * @return whether it swaps one in
     */
    static boolean swapsInLongest(StepDraft draft, StepPredictor predictor, long targetNanos) {
        SchedulerState state = draft.state();
        List<Sequence> host = HostTier.candidates(draft);
        if (host.size() < 2 || !state.inFlight().isEmpty()) {
            return false;
        }
        long tokens = context(draft, host);
        double step = step(draft, predictor, host.size(), tokens, 0, 0);
        if (step * 1e9 <= targetNanos) {
            return false;
        }
        Sequence longest = Collections.max(host, Comparator.comparingInt(state::context));
        int context = state.context(longest);
        double attention =
                predictor.cost().layers() * predictor.cost().cpuAttention(host.size(), tokens) * context / tokens;
        return step - step(draft, predictor, host.size(), tokens, 1, context) >= MIN_SAVING_OF_RETURN * attention
                && GpuTier.swapIn(draft, longest);
    }

    /**
     * Whether steps are not late, or become shorter, once the rows' sequences have left the GPU for the host. The
     * contexts that the host's pace expects may be shorter than those of now, by which sequences return.
     *
     * @param targetNanos default target per token
     */
    static boolean isNotLateAfter(StepDraft draft, List<Row> rows, StepPredictor predictor, long targetNanos) {
        List<Sequence> host = HostTier.candidates(draft);
        long tokens = context(draft, host);
        long leaving = context(draft, rows.stream().map(Row::sequence).toList());
        double step = step(draft, predictor, host.size(), tokens, -rows.size(), -leaving);
        return step * 1e9 <= targetNanos || step < step(draft, predictor, host.size(), tokens, 0, 0);
    }

    private static long context(StepDraft draft, List<Sequence> sequences) {
        return sequences.stream().mapToLong(draft.state()::context).sum();
    }

    /**
     * Seconds of a step without prompts, in one batch or in two, whichever is shorter.
     *
     * @param hostTokens before the move
     * @param hostContext of these
     * @param moved sequences that move from the host to the GPU; negative for the other way
     * @param movedContext of these; negative for the other way
     */
    private static double step(
            StepDraft draft, StepPredictor predictor, int hostTokens, long hostContext, int moved, long movedContext) {
        int gpuRows = draft.load(0).gpuRows() + moved;
        long gpuTokens = draft.load(0).gpuTokens() + movedContext;
        int left = hostTokens - moved;
        if (left == 0) {
            return predictor.mixed(gpuRows, gpuTokens, 0, 0);
        }
        int mean = (int) ((hostContext - movedContext) / left);
        return Math.min(
                predictor.sameLayer(gpuRows, gpuTokens, left, mean, 0, 0),
                predictor.pipelinedInBoth(gpuRows, gpuTokens, left, mean, 0, 0));
    }
}
