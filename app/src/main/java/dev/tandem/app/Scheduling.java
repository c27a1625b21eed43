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
import dev.tandem.engine.strategy.Deviations;
import dev.tandem.engine.strategy.Fidelity;
import dev.tandem.engine.strategy.InFlightLimits;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.engine.strategy.select.StrategySelector;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * The scheduler of the chosen strategy, with its cost model, guard and decision log.
 *
 * @param profile from which the strategy predicts; empty when it does not predict
 * @param ideal of the machine; empty where the tiers do not overlap
 */
record Scheduling(
        Scheduler scheduler,
        DecisionLog decisions,
        Optional<Profile> profile,
        Optional<CostModel> cost,
        Optional<StrategySelector> guard,
        Optional<ServedIdeal> ideal) {
    /** Number of decisions that are kept, so that bench can explain a run; they take a few megabytes. */
    private static final int LOGGED = 10_000;

    /**
     * @param guarded whether offloading runs only where it gains
     * @param profile called only when the strategy predicts step times
     */
    static Scheduling of(
            ModelOptions options,
            Budget budget,
            boolean guarded,
            ExecutorLimits limits,
            Supplier<Profile> profile,
            StartLog log) {
        Strategy strategy = options.strategy.chosen();
        DecisionLog decisions = new DecisionLog(LOGGED);
        Strategy.Options decided =
                options.strategy.decide(budget, options.scheduling, InFlightLimits.of(limits), limits.piggybacking());
        Deviations deviations = decided.deviations();
        if (!strategy.offloads()) {
            log.row("strategy", strategy.flag());
            return new Scheduling(
                    new PolicyScheduler(
                            strategy.gpuPolicy(decided),
                            draft -> 0,
                            (draft, result, predicted, seconds) -> {},
                            decisions),
                    decisions,
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty());
        }
        Profile known = profile.get();
        CostModel cost = new CostModel(options.strategy.decidedBy(known));
        StepPredictor predictor = new StepPredictor(cost, limits.overlaps(), limits.kvBytesPerToken());
        log.row(
                "strategy",
                strategy.flag()
                        + (strategy.fidelity() == Fidelity.PRINTED
                                ? ", rules of --fidelity "
                                        + deviations.fidelity().flag()
                                : "")
                        + (guarded
                                ? ", offloads only while that gains throughput (--guard)"
                                : ", offloads whether or not that gains throughput (--no-guard)"));
        Optional<ServedIdeal> ideal = limits.overlaps()
                ? Optional.of(new ServedIdeal(
                        known,
                        limits,
                        ProfileIdeal.bounds(budget, options.strategy.tpotTarget()),
                        Thread::startVirtualThread))
                : Optional.empty();
        ideal.ifPresent(solved -> log.row("gain", solved.line()));
        if (ideal.isEmpty()) {
            log.notice("Offloading cannot raise throughput here: on the CPU executor both tiers share the same cores."
                    + " Use it for tests, or leave --strategy out.");
        }
        Optional<StrategySelector> guard = guarded
                ? Optional.of(strategy.guarded(
                        decided, predictor, () -> ideal.map(ServedIdeal::ratio).orElse(Double.NaN)))
                : Optional.empty();
        Policy policy = guard.isPresent() ? guard.get() : strategy.policy(decided, cost);
        Scheduler scheduler = new PolicyScheduler(
                new UntilHostLost(policy, Strategy.gpuOnly(decided)),
                predictor::of,
                new Calibrator(cost, limits.kvBytesPerToken()),
                decisions,
                predictor::copyPays);
        return new Scheduling(scheduler, decisions, Optional.of(known), Optional.of(cost), guard, ideal);
    }
}
