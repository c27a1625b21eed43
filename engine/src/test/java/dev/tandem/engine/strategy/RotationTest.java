package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Long outputs on the GPU and on the host; a host sequence is due for rotation after three tokens. */
class RotationTest {
    private static final Budget BUDGET = new Budget(64, 16, 64);
    /** Steps after which {@link TierRules} looks for a sequence that is due. */
    private static final int REFRESH = 32;

    private static final int STEPS = 400;

    /** Steps in which one sequence moves to the GPU and another leaves it. */
    private static List<Long> rotations(Strategy strategy, double cpu) {
        ContentExecutor executor = new ContentExecutor(2, 260, 800, 64, 600, Readiness.allEarly());
        TierRules rules = new TierRules(LatencyTargets.NONE, 3, 0);
        var options = Strategy.Options.builder(BUDGET)
                .preemption(Preemption.RECOMPUTE)
                .rules(rules)
                .build();
        PolicyScheduler scheduler = PolicyScheduler.of(strategy.policy(options, TestProfile.withCpu(cpu)));
        try (EngineHarness engine = new EngineHarness(executor, scheduler, BUDGET)) {
            for (int i = 0; i < 5; i++) {
                engine.submit("r" + i, new int[100], EngineHarness.greedy(450));
            }
            // the first three fill the GPU, and do not end before the rotations are counted
            for (int step = 0; step < STEPS; step++) {
                engine.step();
            }
            List<Long> steps = new ArrayList<>();
            for (StepPlan plan : executor.plans) {
                boolean in = plan.swaps().stream().anyMatch(swap -> swap.to() == KvTier.GPU);
                boolean out = plan.swaps().stream().anyMatch(swap -> swap.to() == KvTier.HOST);
                if (in && out) {
                    steps.add(plan.step());
                }
            }
            engine.run();
            engine.answers.forEach(
                    (id, answer) -> assertThat(answer.tokens).as(id).hasSize(450));
            return steps;
        }
    }

    /** Where no host token hides behind the GPU's work, apex drafts a pipeline, drops it, and uses async overlap. */
    @Test
    void aDraftThatApexDropsIsNoRotation() {
        check(rotations(Strategy.APEX, 1));
    }

    @ParameterizedTest
    @EnumSource(
            value = Strategy.class,
            names = {"ASYMMETRIC", "ASYNC_OVERLAP", "NEO", "APEX"})
    void sequencesRotateAsOftenAsTheRulesAllow(Strategy strategy) {
        check(rotations(strategy, 10));
    }

    private static void check(List<Long> rotations) {
        assertThat(rotations).as("rotations in %d steps", STEPS).hasSizeGreaterThanOrEqualTo(STEPS / REFRESH / 2);
        for (int i = 1; i < rotations.size(); i++) {
            long between = rotations.get(i) - rotations.get(i - 1);
            assertThat(between).as("steps between %s", rotations).isGreaterThanOrEqualTo(REFRESH);
        }
    }
}
