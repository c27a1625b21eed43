package dev.tandem.bench;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.PrefixCacheOptions;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.TierRules;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.ArrayList;
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
 *
 * <p>With the prefix cache, all full blocks of running requests are registered. No two prompts begin alike, or each
 * prompt of the queue begins as one that runs does.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(1)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 3, time = 2)
public class PlanningBenchmark {
    private static final int CONTEXT = 400;
    private static final int BLOCK_TOKENS = 4;
    private static final long SEED = 1;
    private static final long STEP_NANOS = 10_000_000;

    /** Whether there is a prefix cache, and whether waiting requests hit it. */
    public enum Prefixes {
        OFF,
        DISTINCT,
        SHARED
    }

    @Param({"gpu-only", "adaptive-pipelining", "adaptive", "async-overlap", "symmetric"})
    String strategy;

    @Param({"1000"})
    int running;

    @Param({"10000"})
    int waiting;

    @Param({"OFF", "DISTINCT", "SHARED"})
    Prefixes prefixes;

    /** Target per token in milliseconds, as of {@code --tpot-target}; 0 for none. */
    @Param({"0", "250"})
    int target;

    private Scene scene;
    private final List<Sequence> sequences = new ArrayList<>();
    private PolicyScheduler scheduler;

    @Setup
    public void fill() {
        Budget budget = new Budget(8192, 1024, 2048);
        int blocks = running / 2 * (CONTEXT / BLOCK_TOKENS + 1);
        PrefixCacheOptions caching = prefixes == Prefixes.OFF ? PrefixCacheOptions.OFF : PrefixCacheOptions.on(SEED);
        KvCache kv =
                new KvCache(BLOCK_TOKENS, BLOCK_TOKENS, blocks, blocks, PrefillStaging.NONE, caching, Long.MAX_VALUE);
        scene = new Scene(kv, budget).limit(2 * CONTEXT);
        for (int i = 0; i < running; i += 2) {
            int length = CONTEXT + i / 2 % BLOCK_TOKENS;
            sequences.add(scene.content(i).gpu(length));
            sequences.add(scene.content(i + 1).host(length));
        }
        register();
        for (int i = 0; i < waiting; i++) {
            scene.content(prefixes == Prefixes.SHARED ? i % running : running + i)
                    .waiting(CONTEXT);
        }
        CostModel cost = TestProfile.withCpu(1000);
        LatencyTargets targets = new LatencyTargets(0, TimeUnit.MILLISECONDS.toNanos(target));
        Strategy.Options options = Strategy.Options.builder(budget)
                .rules(new TierRules(targets, 0, 0))
                .build();
        Policy policy = Strategy.of(strategy).policy(options, cost);
        scheduler = PolicyScheduler.of(policy);
    }

    /** Completed, as the engine's steps are: plans that are under way are remembered. */
    @Benchmark
    public StepPlan plan() {
        StepPlan plan = scheduler.plan(scene.state, scene.committer);
        scheduler.completed(new StepResult(plan.step(), List.of(), List.of(), List.of(), StepTimes.NONE), STEP_NANOS);
        return plan;
    }

    /** What each step does besides for the prefix cache, where no block has become full. */
    @Benchmark
    public void register() {
        sequences.forEach(sequence -> scene.committer.register(sequence, sequence.computed()));
    }
}
