package dev.tandem.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.loop.Engine;
import dev.tandem.engine.loop.EngineConfig;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.strategy.GpuOnly;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ThroughputRunTest {
    private final AtomicInteger lost = new AtomicInteger();

    /** Can sample nothing. */
    private final Executor executor = new Executor() {
        private final Queue<StepPlan> plans = new ArrayDeque<>();

        @Override
        public ExecutorLimits limits() {
            return ExecutorLimits.builder()
                    .vocabulary(100)
                    .contextTokens(64)
                    .blockTokens(16)
                    .gpuBlocks(64)
                    .maxBatchTokens(64)
                    .build();
        }

        @Override
        public void submit(StepPlan plan) {
            plans.add(plan);
        }

        @Override
        public StepResult poll() {
            StepPlan plan = plans.remove();
            List<StepResult.Lost> all = plan.subBatches().stream()
                    .flatMap(batch -> batch.chunks().stream())
                    .filter(chunk -> chunk.sampler().isPresent())
                    .map(chunk -> new StepResult.Lost(
                            chunk.sequence(), StepResult.Cause.SAMPLING, "its logits are NaN", false))
                    .toList();
            lost.addAndGet(all.size());
            return new StepResult(plan.step(), List.of(), List.of(), List.of(), all, StepTimes.NONE);
        }

        @Override
        public void close() {}
    };

    @Test
    void requestsThatFailAreNotReplacedForEver() {
        Budget budget = new Budget(64, 8, 64);
        Recorder recorder = new Recorder();
        try (Engine engine = new Engine(
                        new EngineConfig(budget, Set.of(), 64, 64, 1),
                        PolicyScheduler.of(new GpuOnly(budget, Preemption.SWAP)),
                        executor,
                        Clock.system(),
                        recorder)
                .start()) {
            ThroughputRun run = new ThroughputRun(
                    engine,
                    recorder,
                    Clock.system(),
                    new Workload("fixed", List.of(new Workload.Lengths(8, 8))),
                    1,
                    (what, done, total) -> {});
            assertThatThrownBy(() -> run.steady(FirstRequests.allInProgress(4), 1, 2))
                    .hasMessageContaining("its logits are NaN");
            assertThat(lost).hasValueLessThanOrEqualTo(8);
        }
    }
}
