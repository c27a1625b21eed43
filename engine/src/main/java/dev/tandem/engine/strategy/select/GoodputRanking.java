package dev.tandem.engine.strategy.select;

import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.StepPredictor.Work;

/**
 * Ranks arms by goodput: normalised work per second, in which late work counts less. Work that is late by a factor
 * counts as its inverse: a prompt by its time since arrival over the target of its first token, a token by the time per
 * token of its sequence over the target, since the sequence entered its tier. So a little lateness costs little, and
 * throughput decides where everything is late. Without targets, goodput is throughput.
 *
 * <p>Owned by: engine thread.
 *
 * @param predictor of the work of steps
 * @param defaultTargets of requests that bring none
 */
public record GoodputRanking(StepPredictor predictor, LatencyTargets defaultTargets) implements ArmRanking {
    /**
     * Tokens that a sequence is given the time for when it enters a tier. A target is the mean of a request, and steps
     * full of prompts make some of its tokens slow.
     */
    private static final int MIN_TOKENS = 32;

    @Override
    public Work work(StepDraft draft) {
        Work work = predictor.work(draft);
        Goodput tokens = new Goodput();
        Goodput prompts = new Goodput();
        long now = draft.state().now();
        for (int batch = 0; batch < 2; batch++) {
            for (StepDraft.Row row : draft.rows(batch)) {
                if (row.decodes()) {
                    tokens.add(tokenLateness(row.sequence(), now), 1);
                } else {
                    prompts.add(promptLateness(row.sequence(), now), row.rows());
                }
            }
        }
        double layerFraction = 1.0 / predictor.cost().layers();
        for (Sequence sequence : draft.state().inFlight()) {
            tokens.add(tokenLateness(sequence, now), layerFraction);
        }
        for (Sequence sequence : draft.admissions()) {
            tokens.add(tokenLateness(sequence, now), layerFraction);
        }
        return new Work(work.promptSeconds() * prompts.fraction(), work.tokens() * tokens.fraction());
    }

    @Override
    public double ratio(ThroughputWindow candidate, ThroughputWindow reference, double promptCost) {
        double secondsPerToken = reference.secondsPerToken();
        return candidate.rate(secondsPerToken, promptCost) / reference.rate(secondsPerToken, promptCost);
    }

    /** Time since a prompt's arrival over its target; 0 where it has none, or has been computed before. */
    private double promptLateness(Sequence sequence, long now) {
        long own = sequence.request().targets().firstTokenNanos();
        long target = own > 0 ? own : defaultTargets.firstTokenNanos();
        return target == 0 || sequence.outputLength() > 0
                ? 0
                : (double) (now - sequence.timings().arrivedNanos()) / target;
    }

    /** A sequence's time per token over its target; 0 where it has none. */
    private double tokenLateness(Sequence sequence, long now) {
        long own = sequence.request().targets().perTokenNanos();
        long target = own > 0 ? own : defaultTargets.perTokenNanos();
        if (target == 0) {
            return 0;
        }
        double tokens = Math.max(sequence.tiers().tokensSinceEntry(), MIN_TOKENS);
        return (now - sequence.tiers().enteredNanos()) / tokens / target;
    }

    /** How much of some work counts. */
    private static final class Goodput {
        private double work;
        private double counted;

        /** @param lateness time over its target; up to 1 the work is in time */
        void add(double lateness, double amount) {
            work += amount;
            counted += amount / Math.max(1, lateness);
        }

        double fraction() {
            return work == 0 ? 1 : counted / work;
        }
    }
}
