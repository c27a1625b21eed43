package dev.tandem.app;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.strategy.Calibrator;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.OffloadAdvice;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.engine.strategy.select.StrategySelector;
import java.io.PrintStream;
import java.util.Optional;
import java.util.function.Supplier;

/** A strategy with what it decides by, its guard and its log. */
record Scheduling(Scheduler scheduler, DecisionLog log, Optional<CostModel> cost, Optional<StrategySelector> guard) {
    /** Tokens a sequence that the advice at the start is for. */
    private static final int ADVICE_CONTEXT = 1000;
    /** Enough for a bench run to be explained; a few megabytes. */
    private static final int LOGGED = 10_000;

    /**
     * @param guarded whether offloading must prove its gain
     * @param profile asked for only when something predicts
     */
    static Scheduling of(
            ModelOptions options,
            Budget budget,
            boolean guarded,
            ExecutorLimits limits,
            Supplier<Profile> profile,
            PrintStream out) {
        Strategy strategy = options.strategy.chosen();
        DecisionLog log = new DecisionLog(LOGGED);
        Strategy.Options decided = options.strategy.decide(
                budget, options.preemption, InFlightLimits.of(limits), limits.piggybackedTokens());
        if (strategy == Strategy.GPU_ONLY) {
            out.println("strategy: gpu-only");
            Policy policy = strategy.policy(decided, null);
            return new Scheduling(
                    new PolicyScheduler(policy, draft -> 0, (draft, result, predicted, seconds) -> {}, log),
                    log,
                    Optional.empty(),
                    Optional.empty());
        }
        CostModel cost = new CostModel(options.strategy.decidedBy(profile.get()));
        StepPredictor predictor = new StepPredictor(cost, limits.overlaps(), limits.kvBytesPerToken());
        out.println("strategy: " + strategy.flag()
                + (guarded ? ", guarded: gpu-only unless offloading gains" : ", without guard"));
        if (limits.overlaps()) {
            int context = Math.min(ADVICE_CONTEXT, limits.gpuBlocks() * limits.blockTokens() / 2);
            out.println(OffloadAdvice.of(cost, limits, context));
        } else {
            out.println("given up: on this executor both tiers share the same cores, so offloading cannot gain");
        }
        GpuOnly gpuOnly = new GpuOnly(budget, options.preemption, decided.queueBypasses(), decided.piggybackedTokens());
        Optional<StrategySelector> guard =
                guarded ? Optional.of(strategy.guarded(decided, predictor)) : Optional.empty();
        Policy policy = guard.isPresent() ? guard.get() : strategy.policy(decided, cost);
        Scheduler scheduler = new PolicyScheduler(
                new UntilHostLost(policy, gpuOnly), predictor::of, new Calibrator(cost, limits.kvBytesPerToken()), log);
        return new Scheduling(scheduler, log, Optional.of(cost), guard);
    }
}
