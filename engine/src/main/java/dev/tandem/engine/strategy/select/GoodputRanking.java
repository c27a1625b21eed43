package dev.tandem.engine.strategy.select;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * Ranks arms by goodput: work per second, in seconds of gpu-only, in which late work counts little. A prompt is late
 * once its first token is past its target. A token is late while its sequence gets tokens slower than its target, where
 * the sequence now is. Without targets goodput is throughput.
 *
 * <p>Owned by: engine thread.
 *
 * @param server targets of requests that bring none
 */
public record GoodputRanking(StepPredictor predictor, LatencyTargets server) implements ArmRanking {
    /**
     * What late work counts: more than 0, so that throughput decides where nothing is on time. The value matters
     * little: 0.01 and 0.3 do the same in {@code OpenLoopTest}.
     */
    private static final double LATE = 0.1;
    /** Tokens from which a sequence's own time per token means something. */
    private static final int MIN_TOKENS = 4;

    @Override
    public Work work(StepDraft draft) {
        Work work = predictor.work(draft);
        Shares shares = new Shares();
        long now = draft.state().now();
        for (int batch = 0; batch < 2; batch++) {
            for (StepDraft.Row row : draft.rows(batch)) {
                if (row.decodes()) {
                    shares.token(isLateToken(row.sequence(), now), 1);
                } else {
                    shares.prompt(isLatePrompt(row.sequence(), now), row.rows());
                }
            }
        }
        double layerShare = 1.0 / predictor.cost().layers();
        for (Sequence sequence : draft.state().inFlight()) {
            shares.token(isLateToken(sequence, now), layerShare);
        }
        for (Sequence sequence : draft.admissions()) {
            shares.token(isLateToken(sequence, now), layerShare);
        }
        return new Work(work.promptSeconds() * shares.promptWeight(), work.tokens() * shares.tokenWeight());
    }

    @Override
    public double share(ThroughputWindow candidate, ThroughputWindow reference) {
        double secondsPerToken = reference.secondsPerToken();
        return candidate.rate(secondsPerToken) / reference.rate(secondsPerToken);
    }

    private boolean isLatePrompt(Sequence sequence, long now) {
        long own = sequence.request().targets().firstTokenNanos();
        long target = own > 0 ? own : server.firstTokenNanos();
        return target > 0
                && sequence.outputLength() == 0
                && now - sequence.timings().arrivedNanos() > target;
    }

    private boolean isLateToken(Sequence sequence, long now) {
        long own = sequence.request().targets().perTokenNanos();
        long target = own > 0 ? own : server.perTokenNanos();
        if (target == 0) {
            return false;
        }
        int tokens = sequence.tiers().tokensSinceEntry();
        return tokens >= MIN_TOKENS && now - sequence.tiers().enteredNanos() > target * tokens;
    }

    /** How much of a step's tokens and prompt tokens are late. */
    private static final class Shares {
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
            return lateTokens == 0 ? 1 : 1 - (1 - LATE) * lateTokens / tokens;
        }

        double promptWeight() {
            return latePrompts == 0 ? 1 : 1 - (1 - LATE) * latePrompts / prompts;
        }
    }
}
