package dev.tandem.engine.strategy;

import dev.tandem.engine.executor.CheapRows;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Decision;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.SchedulerState;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;

/** Runs each strategy for some steps, and {@link Shuffling} in between, in seeded order. */
public final class ChangingStrategies implements Policy {
    private final List<Policy> policies;
    private final SplittableRandom random;
    private Policy current;
    private int left;

    public ChangingStrategies(Budget budget, long seed) {
        random = new SplittableRandom(seed);
        var options = Strategy.Options.builder(budget)
                .inFlight(new InFlightLimits(64, 1024, true))
                .piggybacking(CheapRows.upTo(64))
                .build();
        Stream<Policy> known =
                Stream.of(Strategy.values()).map(strategy -> strategy.policy(options, TestProfile.withCpu(100)));
        policies = Stream.concat(Stream.of(new Shuffling(budget, Shuffling.Takes.WHAT_CUDA_DOES, seed)), known)
                .toList();
    }

    @Override
    public StepDraft draft(SchedulerState state, Decision why) {
        if (left-- == 0) {
            left = random.nextInt(random.nextBoolean() ? 3 : 40);
            current = policies.get(random.nextInt(policies.size()));
        }
        return current.draft(state, why);
    }

    @Override
    public void completed(StepDraft draft, double achieved) {
        policies.forEach(policy -> policy.completed(draft, achieved));
    }
}
