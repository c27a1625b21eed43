package dev.tandem.bench;

import dev.tandem.bench.load.Load;
import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.schedule.DecisionLog;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scheduler;
import dev.tandem.engine.strategy.Calibrator;
import dev.tandem.engine.strategy.Deviation;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.function.Supplier;

/**
 * An engine to simulate. Each run begins with an empty engine, a new scheduler and a clock at 0, so that equal loads
 * give equal results.
 *
 * <p>Owned by: any thread, immutable; each run by the thread that simulates it.
 *
 * @param config of the engine
 * @param limits of the executor
 * @param machine how long the machine takes; the scheduler may predict from another profile
 * @param cohort whether in-flight tokens stand at one layer together, so that each layer computes only those there
 * @param scheduler makes a scheduler that has not planned yet
 */
public record SimulatedEngine(
        EngineConfig config, ExecutorLimits limits, Profile machine, boolean cohort, Supplier<Scheduler> scheduler) {
    /**
     * An engine whose scheduler predicts from the machine's own profile.
     *
     * @param guarded whether offloading runs only where it gains
     */
    public static SimulatedEngine of(
            Profile machine,
            ExecutorLimits limits,
            EngineConfig config,
            Strategy strategy,
            boolean guarded,
            Strategy.Options options) {
        boolean cohort = !options.deviations().has(Deviation.SPREAD_HOST_TOKENS);
        return new SimulatedEngine(
                config, limits, machine, cohort, () -> scheduler(strategy, guarded, options, machine, limits));
    }

    static Scheduler scheduler(
            Strategy strategy, boolean guarded, Strategy.Options options, Profile profile, ExecutorLimits limits) {
        CostModel cost = new CostModel(profile);
        StepPredictor predictor = new StepPredictor(cost, true, limits.kvBytesPerToken());
        Policy policy =
                guarded ? strategy.guarded(options, predictor, () -> Double.NaN) : strategy.policy(options, cost);
        return new PolicyScheduler(
                new UntilHostLost(policy, Strategy.gpuOnly(options)),
                predictor::of,
                new Calibrator(cost, limits.kvBytesPerToken()),
                new DecisionLog(1),
                predictor::copyPays);
    }

    /** A run that has not begun. */
    public SimulatedRun run(Workload workload) {
        VirtualClock clock = new VirtualClock();
        SimulatedExecutor executor = new SimulatedExecutor(limits, new CostModel(machine), clock);
        if (cohort) {
            executor.computeOccupiedLayersOnly();
        }
        return new SimulatedRun(config, scheduler.get(), executor, clock, workload);
    }

    /** Simulates an open loop over the requests of a workload. */
    public SimulatedRun.OpenLoop open(Workload workload, Load load) {
        return run(workload).open(load);
    }
}
