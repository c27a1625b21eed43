package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A worker of the host's attention dies or stalls. Its requests fail with the reason, and the others go on without the
 * host.
 */
class HostLossTest {
    private static final int HOST_BLOCKS = 40;

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void theEngineGoesOnWithoutTheHost(boolean blocksStillInUse) {
        Budget budget = new Budget(64, 16, 64);
        ContentExecutor executor = new ContentExecutor(3, 12, HOST_BLOCKS, 64, 40, Readiness.allLate());
        executor.losingForGood = blocksStillInUse;
        var options = Strategy.Options.of(budget);
        GpuOnly gpuOnly = new GpuOnly(budget, Preemption.SWAP);
        UntilHostLost policy =
                new UntilHostLost(Strategy.ASYNC_OVERLAP.policy(options, TestProfile.withCpu(100)), gpuOnly);
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), budget)) {
            engine.failuresExpected = true;
            for (int i = 0; i < 10; i++) {
                engine.submit("r" + i, new int[] {1, 2, 3, 4, 5, 6}, EngineHarness.greedy(30));
            }
            while (engine.loop.stats().requests().inFlight() < 2) {
                engine.step();
            }
            long[] toLose = {engine.loop.stats().requests().inFlight()};
            executor.losing = key -> toLose[0]-- > 0; // all tokens that are in flight now
            engine.step();
            executor.losing = key -> false;
            int after = executor.plans.size();
            engine.run();
            List<String> failed = engine.answers.entrySet().stream()
                    .filter(entry -> entry.getValue().failure != null)
                    .peek(entry -> assertThat(entry.getValue().failure).contains("the worker is gone"))
                    .map(Map.Entry::getKey)
                    .toList();
            assertThat(failed).hasSizeGreaterThanOrEqualTo(2);
            engine.answers.forEach((id, answer) -> {
                if (!failed.contains(id)) {
                    assertThat(answer.tokens).as(id).hasSize(30);
                }
            });
            assertThat(executor.plans.subList(after + 1, executor.plans.size()))
                    .as("no token is admitted once the host is lost")
                    .allMatch(plan -> plan.admissions().isEmpty());
            assertThat(engine.loop.stats().hostLost()).contains("the worker is gone");
            assertThat(engine.loop.stats().host().used()).isZero();
            assertThat(engine.loop.stats().gpu().used()).isZero();
        }
    }
}
