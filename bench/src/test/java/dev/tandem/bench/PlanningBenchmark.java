package dev.tandem.bench;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * One plan, drafted and committed, with full pools: half of the running requests in GPU blocks, half on the host, and a
 * queue behind them. The state stays as it is, so every call plans the same step.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 3, time = 2)
public class PlanningBenchmark {
    private static final int CONTEXT = 400;
    private static final long STEP_NANOS = 10_000_000;

    @Param({"gpu-only", "adaptive-pipelining", "adaptive", "async-overlap", "symmetric"})
    String strategy;

    @Param({"1000"})
    int running;

    @Param({"10000"})
    int waiting;

    private Scene scene;
    private PolicyScheduler scheduler;

    @Setup
    public void fill() {
        Budget budget = new Budget(8192, 1024, 2048);
        int blocks = running / 2 * (CONTEXT / 4 + 1);
        scene = new Scene(blocks, blocks, budget).limit(2 * CONTEXT);
        for (int i = 0; i < running / 2; i++) {
            scene.gpu(CONTEXT + i % 4);
            scene.host(CONTEXT + i % 4);
        }
        for (int i = 0; i < waiting; i++) {
            scene.waiting(CONTEXT);
        }
        CostModel cost = TestProfile.withCpu(1000);
        Policy policy = Strategy.of(strategy).policy(Strategy.Options.of(budget), cost);
        scheduler = PolicyScheduler.of(policy);
    }

    /** Completed, as the engine's steps are: plans that are under way are remembered. */
    @Benchmark
    public StepPlan plan() {
        StepPlan plan = scheduler.plan(scene.state, scene.committer);
        scheduler.completed(new StepResult(plan.step(), List.of(), List.of(), List.of(), StepTimes.NONE), STEP_NANOS);
        return plan;
    }
}
