package dev.tandem.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.Policy;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.strategy.GpuOnly;
import dev.tandem.engine.strategy.TestProfile;
import dev.tandem.engine.strategy.UntilHostLost;
import dev.tandem.engine.strategy.select.Strategy;
import dev.tandem.model.config.DataType;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Attention workers die while they hold host tokens. Requests of these tokens fail with the reason; others finish. */
@Tag("gpu")
@Timeout(120)
class HybridFaultTest {
    private static final Budget BUDGET = new Budget(256, 64, 64);

    /** Without checksums, steps are planned ahead of those that offload prefills. */
    static Stream<Arguments> policiesAndChecksums() {
        return Stream.of(true, false)
                .flatMap(checksums -> Stream.of(
                                new HostOnly(BUDGET),
                                new HostOnly(BUDGET, true),
                                Strategy.SIMPLE_OFFLOAD.policy(Strategy.Options.of(BUDGET), TestProfile.model()))
                        .map(policy -> Arguments.of(policy, checksums)));
    }

    @ParameterizedTest
    @MethodSource("policiesAndChecksums")
    void deadWorkersFailOnlyTheRequestsOfHostTokens(Policy hybrid, boolean checksums) {
        CudaExecutor executor = CudaModelTest.executor(
                "llama31", CudaModelTest.options(DataType.BFLOAT16, 200, true, 2, 200, checksums));
        UntilHostLost policy = new UntilHostLost(hybrid, new GpuOnly(BUDGET, Preemption.SWAP));
        try (EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(policy), BUDGET)) {
            engine.failuresExpected = true;
            for (int i = 0; i < 20; i++) {
                engine.submit("r" + i, new int[] {5, 9, 200, 31, i}, EngineHarness.greedy(40));
            }
            while (engine.loop.stats().requests().inFlight() < 4
                    && engine.loop.stats().host().used() < 4) {
                engine.step();
            }
            executor.faults().endWorkers();
            for (int i = 20; i < 30; i++) {
                engine.submit("r" + i, new int[] {5, 9, 200, 31, i}, EngineHarness.greedy(40));
            }
            engine.run();
            int failed = 0;
            for (int i = 0; i < 30; i++) {
                var answer = engine.answers.get("r" + i);
                if (answer.failure == null) {
                    assertThat(answer.tokens).hasSize(40);
                } else {
                    assertThat(answer.failure).contains("tandem-attention-").contains("is gone");
                    failed++;
                }
            }
            assertThat(failed).isBetween(4, 20);
            assertThat(engine.loop.stats().hostLost()).contains("is gone");
            assertThat(engine.loop.stats().host().used()).isZero();
            assertThat(engine.loop.stats().gpu().used()).isZero();
        }
    }
}
