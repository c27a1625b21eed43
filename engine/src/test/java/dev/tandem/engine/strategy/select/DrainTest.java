package dev.tandem.engine.strategy.select;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Preemption;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.strategy.StepPredictor;
import dev.tandem.engine.strategy.TestProfile;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Steps that use the host take ten times as long as others, so the selector stops offloading while requests are on the
 * host.
 */
class DrainTest {
    private static final Budget BUDGET = new Budget(64, 32, 64);
    private static final SelectorLimits LIMITS = new SelectorLimits(0.01, 2, 4, 0, 1000, 1000);
    private static final int OUTPUT = 60;
    /** Max steps until a host sequence gets a token: it passes three layers and takes turns with other sequences. */
    private static final int MAX_GAP = 20;

    private final ContentExecutor executor = new ContentExecutor(3, 44, 400, 64, 80, Readiness.allEarly());

    private EngineHarness engine(StrategySelector guard) {
        EngineHarness engine = new EngineHarness(executor, PolicyScheduler.of(guard), BUDGET);
        executor.computing = plan -> engine.clock.advance(usesHost(plan) ? 10_000_000 : 1_000_000);
        return engine;
    }

    private static boolean usesHost(StepPlan plan) {
        return plan.slotsPerLayer() > 0
                || plan.subBatches().stream()
                        .flatMap(batch -> batch.chunks().stream())
                        .anyMatch(chunk -> chunk.site() != AttentionSite.GPU_FROM_GPU);
    }

    private static StrategySelector guard(Strategy strategy) {
        CostModel cost = TestProfile.withCpu(100);
        var options = Strategy.Options.builder(BUDGET)
                .preemption(Preemption.RECOMPUTE)
                .build();
        return strategy.guarded(options, new StepPredictor(cost, true, 0), LIMITS, () -> Double.NaN);
    }

    @ParameterizedTest
    @EnumSource(
            value = Strategy.class,
            names = {"ASYNC_OVERLAP", "NEO", "APEX"})
    void hostStreamsGoOnAndPromptsStartWhileTheHostDrains(Strategy strategy) {
        StrategySelector guard = guard(strategy);
        try (EngineHarness engine = engine(guard)) {
            for (int i = 0; i < 24; i++) {
                engine.submit("r" + i, new int[16], EngineHarness.greedy(OUTPUT));
            }
            while (guard.losses() == 0) {
                engine.step();
            }
            assertThat(engine.loop.stats().host().used()).isPositive();
            engine.submit("late", new int[16], EngineHarness.greedy(OUTPUT));
            int first = executor.plans.size();
            Map<String, Integer> tokens = new HashMap<>();
            Map<String, Integer> since = new HashMap<>();
            int starts = 0;
            for (int step = 0; engine.loop.stats().host().used() > 0; step++) {
                int now = step;
                engine.step();
                List<Long> onHost = onHost();
                engine.answers.forEach((id, answer) -> {
                    boolean waits = answer.reason == null && !id.equals("late");
                    boolean onHostNow = waits && onHost.contains(Long.parseLong(id.substring(1)));
                    if (!onHostNow || answer.tokens.size() != tokens.getOrDefault(id, -1)) {
                        since.put(id, now);
                    }
                    tokens.put(id, answer.tokens.size());
                    assertThat(now - since.get(id))
                            .as("steps without a token for %s", id)
                            .isLessThan(MAX_GAP);
                });
            }
            for (StepPlan plan : executor.plans.subList(first + 1, executor.plans.size())) {
                assertThat(plan.swaps()).as("no sequence enters the host").noneMatch(swap -> swap.to() == KvTier.HOST);
                for (var batch : plan.subBatches()) {
                    for (var chunk : batch.chunks()) {
                        boolean enters = chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD && chunk.start() == 0;
                        assertThat(enters)
                                .as("r%d enters the host", chunk.sequence())
                                .isFalse();
                        starts += chunk.start() == 0 ? 1 : 0;
                    }
                }
            }
            assertThat(starts).as("prompts that started while the host drained").isPositive();
            engine.run();
            engine.answers.forEach(
                    (id, answer) -> assertThat(answer.tokens).as(id).hasSize(OUTPUT));
        }
    }

    /** Keys of the sequences whose last chunk, swap or admission was on the host. */
    private List<Long> onHost() {
        Map<Long, Boolean> host = new HashMap<>();
        for (StepPlan plan : executor.plans) {
            plan.subBatches()
                    .forEach(batch -> batch.chunks()
                            .forEach(chunk ->
                                    host.put(chunk.sequence(), chunk.site().tier() == KvTier.HOST)));
            plan.swaps().forEach(swap -> host.put(swap.sequence(), swap.to() == KvTier.HOST));
            plan.admissions().forEach(admission -> host.put(admission.sequence(), true));
        }
        return host.entrySet().stream()
                .filter(Map.Entry::getValue)
                .map(Map.Entry::getKey)
                .toList();
    }
}
