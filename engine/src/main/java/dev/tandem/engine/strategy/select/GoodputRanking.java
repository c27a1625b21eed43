package dev.tandem.engine.strategy.select;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * Ranks arms by goodput: normalised work per second, in which late work counts a tenth. A prompt is late once the
 * target of its first token has passed. A token is late while its sequence gets tokens more slowly than its target,
 * since the sequence entered its tier. Without targets, goodput is throughput.
 *
 * <p>Owned by: engine thread.
 *
 * @param predictor of the work of steps
 * @param defaultTargets of requests that bring none
 */
public record GoodputRanking(StepPredictor predictor, LatencyTargets defaultTargets) implements ArmRanking {
    /**
     * Weight of late work. It is above 0, so that throughput decides where everything is late. The value matters
     * little: 0.01 and 0.3 give the same result in {@code OpenLoopTest}.
     */
    private static final double LATE_WEIGHT = 0.1;
    /**
     * Tokens that a sequence is given the time for when it enters a tier. A target is the mean of a request, and steps
     * full of prompts make some of its tokens slow.
     */
    private static final int MIN_TOKENS = 32;

    @Override
    public Work work(StepDraft draft) {
        Work work = predictor.work(draft);
        LateWork late = new LateWork();
        long now = draft.state().now();
        for (int batch = 0; batch < 2; batch++) {
            for (StepDraft.Row row : draft.rows(batch)) {
                if (row.decodes()) {
                    late.token(isLateToken(row.sequence(), now), 1);
                } else {
                    late.prompt(isLatePrompt(row.sequence(), now), row.rows());
                }
            }
        }
        double layerFraction = 1.0 / predictor.cost().layers();
        for (Sequence sequence : draft.state().inFlight()) {
            late.token(isLateToken(sequence, now), layerFraction);
        }
        for (Sequence sequence : draft.admissions()) {
            late.token(isLateToken(sequence, now), layerFraction);
        }
        return new Work(work.promptSeconds() * late.promptWeight(), work.tokens() * late.tokenWeight());
    }

    @Override
    public double ratio(ThroughputWindow candidate, ThroughputWindow reference) {
        double secondsPerToken = reference.secondsPerToken();
        return candidate.rate(secondsPerToken) / reference.rate(secondsPerToken);
    }

    private boolean isLatePrompt(Sequence sequence, long now) {
        long own = sequence.request().targets().firstTokenNanos();
        long target = own > 0 ? own : defaultTargets.firstTokenNanos();
        return target > 0
                && sequence.outputLength() == 0
                && now - sequence.timings().arrivedNanos() > target;
    }

    private boolean isLateToken(Sequence sequence, long now) {
        long own = sequence.request().targets().perTokenNanos();
        long target = own > 0 ? own : defaultTargets.perTokenNanos();
        if (target == 0) {
            return false;
        }
        int tokens = sequence.tiers().tokensSinceEntry();
        return now - sequence.tiers().enteredNanos() > target * Math.max(tokens, MIN_TOKENS);
    }

    /** Counts how many tokens and prompt tokens of a step are late. */
    private static final class LateWork {
        private double tokens;
        private double lateTokens;
        private double prompts;
        private double latePrompts;

        void token(boolean late, double count) {
            tokens += count;
            lateTokens += late ? count : 0;
        }

        void prompt(boolean late, double count) {
            prompts += count;
            latePrompts += late ? count : 0;
        }

        double tokenWeight() {
            return lateTokens == 0 ? 1 : 1 - (1 - LATE_WEIGHT) * lateTokens / tokens;
        }

        double promptWeight() {
            return latePrompts == 0 ? 1 : 1 - (1 - LATE_WEIGHT) * latePrompts / prompts;
        }
    }
}
