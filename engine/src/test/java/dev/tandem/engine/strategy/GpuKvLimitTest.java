package dev.tandem.engine.strategy;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.ContentExecutor;
import dev.tandem.engine.EngineHarness;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.engine.schedule.PolicyScheduler;
import dev.tandem.engine.schedule.Scene;
import dev.tandem.engine.schedule.StepDraft;
import dev.tandem.engine.schedule.StepDraft.Row;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * 70 s per token, of which two sub-batches may take 67.9, in 2 layers. In each a linear stage takes 10, and the GPU's
 * attention of a sequence, by its expected context of 98 tokens, 0.98. So two sub-batches keep the target with up to 14
 * sequences on the GPU, whose pool has room for 20. A CPU 20 times as fast as the profile's attends for 65 in that
 * time; beside a full GPU, one batch has time for fewer than 50.
 */
class GpuKvLimitTest {
    private static final Budget BUDGET = new Budget(400, 300, 400);
    private static final long TARGET = 70_000_000_000L;
    private static final int POOL = 520;
    /** Blocks of a sequence of 98 tokens. */
    private static final int BLOCKS = 25;
    /** Steps between two searches. */
    private static final int REFRESH = 32;

    private final Scene scene = new Scene(POOL, 4000, BUDGET).limit(100);

    private static Pipeline pipeline(CostModel cost, Deviations deviations) {
        TierRules rules = new TierRules(new LatencyTargets(0, TARGET), 0, 0);
        return new Pipeline(BUDGET, new StepPredictor(cost, true, 0), rules, deviations, true);
    }

    private static Pipeline pipeline(double cpu) {
        return pipeline(TestProfile.withCpu(cpu), Deviations.of(Fidelity.TANDEM));
    }

    /** 21 sequences on the GPU, which has no room for another, 5 on the host, and more that wait. */
    private void fill() {
        fill(21);
    }

    private void fill(int gpu) {
        scene.gpu(98);
        for (int i = 0; i < gpu - 1; i++) {
            scene.gpu(94);
        }
        for (int i = 0; i < 5; i++) {
            scene.host(60);
        }
        for (int i = 0; i < 100; i++) {
            scene.waiting(40);
        }
    }

    private static Row row(StepDraft draft, Sequence sequence) {
        return draft.rows(0).stream()
                .filter(row -> row.sequence() == sequence)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void theHostHasMoreWhereTheGpuHasLess() {
        fill();
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).as("12 of 20 sequences").isEqualTo(POOL - 12 * BLOCKS);
        assertThat(draft.note()).startsWith("220 of 520 GPU blocks stay free");
    }

    /** Steps of 67.9 s that take longer leave time for fewer sequences, and then less than a gain of 5 %. */
    @ParameterizedTest
    @CsvSource({"0.9, 15", "1, 12", "1.08, 10", "1.1, 0"})
    void theMeasuredTimeOfTwoSubBatchesCounts(double measured, int sequences) {
        fill();
        CostModel cost = TestProfile.withCpu(20);
        for (int i = 0; i < 1000; i++) {
            cost.observeSubBatches(1, measured);
        }
        StepDraft draft = pipeline(cost, Deviations.of(Fidelity.TANDEM)).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isEqualTo(sequences == 0 ? 0 : POOL - sequences * BLOCKS);
    }

    @Test
    void theGpuIsFullWhereTheCpuIsSlow() {
        fill();
        StepDraft draft = pipeline(1).draft(scene.state);
        assertThat(draft.foundGpuKvLimit()).isNotNull();
        assertThat(draft.gpuBlocksKeptFree()).isZero();
    }

    @Test
    void thePapersHaveNone() {
        fill();
        StepDraft draft = pipeline(TestProfile.withCpu(20), Deviations.of(Fidelity.PRINTED))
                .draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isZero();
    }

    @Test
    void theLongestLeaveInStepsThatFindTheLimit() {
        fill();
        Pipeline pipeline = pipeline(20);
        StepDraft first = pipeline.draft(scene.state);
        assertThat(first.outs())
                .as("so many that the GPU still holds more than 12 of 98 tokens")
                .extracting(Sequence::key)
                .containsExactly(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L);
        pipeline.completed(first, 0);
        for (int step = 0; step < REFRESH; step++) {
            StepDraft later = pipeline.draft(scene.state);
            assertThat(later.outs()).as("step %d", step).isEmpty();
            assertThat(later.gpuBlocksKeptFree()).isEqualTo(first.gpuBlocksKeptFree());
            pipeline.completed(later, 0);
        }
        assertThat(pipeline.draft(scene.state).outs()).hasSize(8);
    }

    @Test
    void noMoreLeaveThanWait() {
        fill();
        List.copyOf(scene.state.waiting().view()).stream().skip(3).forEach(scene.committer::remove);
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.outs()).hasSize(3);
    }

    /** With one more the host would be too slow beside 20 sequences on the GPU; with 8 more it is not beside 13. */
    @Test
    void severalLeaveWhereOneAloneWouldMakeTheHostTooSlow() {
        fill();
        for (int i = 0; i < 45; i++) {
            scene.host(90);
        }
        assertThat(pipeline(20).draft(scene.state).outs()).hasSize(8);
        List.copyOf(scene.state.waiting().view()).stream().skip(1).forEach(scene.committer::remove);
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isPositive();
        assertThat(draft.outs()).as("one waits, so one might leave").isEmpty();
    }

    @Test
    void oneThatWouldMissItsTargetOnTheHostStays() {
        scene.targets(new LatencyTargets(0, TARGET / 2));
        for (int i = 0; i < 4; i++) {
            scene.gpu(99);
        }
        scene.targets(LatencyTargets.NONE);
        fill(16);
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.outs()).isNotEmpty().extracting(Sequence::key).allMatch(key -> key >= 4);
    }

    /** Eight must leave together, of 24 blocks each; with fewer the host would be too slow. */
    @ParameterizedTest
    @CsvSource({"208, 8", "58, 0"})
    void noMoreLeaveThanTheHostHasBlocksFor(int blocks, int leave) {
        Scene small = new Scene(POOL, 45 * 25 + blocks, BUDGET).limit(100);
        for (int i = 0; i < 21; i++) {
            small.gpu(94);
        }
        for (int i = 0; i < 45; i++) {
            small.host(98);
        }
        for (int i = 0; i < 100; i++) {
            small.waiting(40);
        }
        StepDraft draft = pipeline(20).draft(small.state);
        assertThat(draft.gpuBlocksKeptFree()).isPositive();
        assertThat(draft.outs()).hasSize(leave);
    }

    /** The second is drafted, as where steps are planned ahead, before the first has ended. */
    @Test
    void theNextStepDoesNotUndoWhatTheFirstSearchBegan() {
        fill();
        Pipeline pipeline = pipeline(20);
        StepDraft first = pipeline.draft(scene.state);
        assertThat(first.outs()).isNotEmpty();
        scene.committer.commit(first);
        StepDraft second = pipeline.draft(scene.state);
        assertThat(second.ins()).isEmpty();
    }

    @Test
    void sequencesThatLeaveStillCountForTheMaxOfSequences() {
        Budget budget = new Budget(400, 26, 400);
        fill();
        Pipeline pipeline = new Pipeline(
                budget,
                new StepPredictor(TestProfile.withCpu(20), true, 0),
                new TierRules(new LatencyTargets(0, TARGET), 0, 0),
                Deviations.of(Fidelity.TANDEM),
                true);
        StepDraft draft = pipeline.draft(scene.state);
        assertThat(draft.outs()).isNotEmpty();
        assertThat(draft.gpuSequences() + draft.hostSequences()).isEqualTo(26);
    }

    /** The GPU takes longer than the target, with four sequences fewer as well, but less long. */
    @Test
    void sequencesLeaveForAHostThatIsTooSlowWhereThatMakesItFaster() {
        fill();
        for (int i = 0; i < 70; i++) {
            scene.host(90);
        }
        assertThat(pipeline(20).draft(scene.state).outs()).isNotEmpty();
    }

    @Test
    void noneLeavesForAHostThatWouldBeSlower() {
        fill();
        for (int i = 0; i < 130; i++) {
            scene.host(90);
        }
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isPositive();
        assertThat(draft.outs()).isEmpty();
    }

    /** Beside 10 sequences on the GPU, with which a layer takes 29.4, those on the host of 98 tokens take 0.49 each. */
    private StepDraft secondDraft(CostModel cost, int gpu, int host) {
        for (int i = 0; i < gpu; i++) {
            scene.gpu(94);
        }
        for (int i = 0; i < host; i++) {
            scene.host(94 + i % 5);
        }
        for (int i = 0; i < 100; i++) {
            scene.waiting(40);
        }
        Pipeline pipeline = pipeline(cost, Deviations.of(Fidelity.TANDEM));
        StepDraft first = pipeline.draft(scene.state);
        assertThat(first.gpuBlocksKeptFree()).isPositive();
        assertThat(first.ins()).as("no limit is in force").isEmpty();
        pipeline.completed(first, 0);
        return pipeline.draft(scene.state);
    }

    @ParameterizedTest
    @CsvSource({"20, 0", "70, 0", "80, 1", "130, 1"})
    void theLongestReturnsFromAHostThatIsTooSlow(int host, int returns) {
        StepDraft draft = secondDraft(TestProfile.withCpu(20), 10, host);
        assertThat(draft.ins()).hasSize(returns).allMatch(sequence -> scene.state.context(sequence) == 98);
        assertThat(draft.outs()).isEmpty();
        assertThat(draft.gpuBlocksKeptFree()).isPositive();
        assertThat(draft.load(0).prefillOffloadTokens() > 0)
                .as("prompts start there")
                .isEqualTo(host < 70);
        assertThat(draft.note().startsWith("a sequence returns from the host")).isEqualTo(returns == 1);
    }

    /** Two sub-batches take 73 of 70 s, but for the GPU, which has room, until the host takes longer. */
    @ParameterizedTest
    @CsvSource({"60, 0", "90, 1"})
    void noneReturnsWhereTheGpuIsTheSlowerTier(int host, int returns) {
        CostModel cost = TestProfile.withCpu(20);
        for (int i = 0; i < 1000; i++) {
            cost.observeSubBatches(1, 1.05);
        }
        assertThat(secondDraft(cost, 15, host).ins()).hasSize(returns);
    }

    /** Of 98 tokens each, they are expected to have 78 while they decode; with one more, 69 of these take 70.6 s. */
    @ParameterizedTest
    @CsvSource({"60, 1", "68, 0"})
    void noneLeavesForAHostThatWouldBeLateByItsContextsOfNow(int host, int leave) {
        fill(15);
        for (int i = 0; i < host; i++) {
            scene.host(20, 98);
        }
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isPositive();
        assertThat(draft.outs()).hasSize(leave);
    }

    /** They hold 6 blocks each now, and are expected to hold 20; new ones start with 5, and are expected to hold 20. */
    @Test
    void theGpuHasNoMoreThanTheLimitHoldsOnceAllHaveGrown() {
        for (int i = 0; i < 8; i++) {
            scene.gpu(22);
        }
        for (int i = 0; i < 100; i++) {
            scene.waiting(20);
        }
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(draft.gpuBlocksKeptFree()).isEqualTo(POOL - 14 * 20);
        assertThat(draft.gpuSequences()).isEqualTo(14);
        assertThat(draft.hostSequences()).as("prompts").isPositive();
    }

    @Test
    void promptsStartOnTheHostThoughTheGpuHasRoom() {
        for (int i = 0; i < 16; i++) {
            scene.gpu(90);
        }
        scene.host(60);
        Sequence shortTarget = scene.waiting(40, new LatencyTargets(0, TARGET / 2));
        Sequence other = scene.waiting(40);
        for (int i = 0; i < 100; i++) {
            scene.waiting(40);
        }
        StepDraft draft = pipeline(20).draft(scene.state);
        assertThat(row(draft, shortTarget).site())
                .as("the host would be too slow for it")
                .isEqualTo(AttentionSite.GPU_FROM_GPU);
        assertThat(row(draft, other).site()).isEqualTo(AttentionSite.GPU_PREFILL_OFFLOAD);
    }

    @Test
    void theLimitEndsWithTheQueue() {
        for (int i = 0; i < 16; i++) {
            scene.gpu(90);
        }
        scene.host(60);
        for (int i = 0; i < 100; i++) {
            scene.waiting(40);
        }
        Pipeline pipeline = pipeline(20);
        StepDraft first = pipeline.draft(scene.state);
        assertThat(first.gpuBlocksKeptFree()).isPositive();
        pipeline.completed(first, 0);
        List.copyOf(scene.state.waiting().view()).forEach(scene.committer::remove);
        for (int step = 0; step < REFRESH; step++) {
            StepDraft later = pipeline.draft(scene.state);
            assertThat(later.gpuBlocksKeptFree()).as("prompts may use them").isZero();
            assertThat(later.ins())
                    .as("nothing is copied for a queue that is empty for a while")
                    .isEmpty();
            pipeline.completed(later, 0);
        }
        pipeline.completed(pipeline.draft(scene.state), 0);
        assertThat(pipeline.draft(scene.state).ins()).hasSize(1);
    }

    /** All requests get their tokens, while sequences leave the GPU though it has room. */
    @Test
    void noRequestIsLost() {
        ContentExecutor executor = new ContentExecutor(2, POOL, 4000, 400, 600, Readiness.allEarly());
        var options = Strategy.Options.builder(BUDGET)
                .rules(new TierRules(new LatencyTargets(0, TARGET), 0, 0))
                .build();
        PolicyScheduler scheduler = PolicyScheduler.of(Strategy.ASYMMETRIC.policy(options, TestProfile.withCpu(20)));
        try (EngineHarness engine = new EngineHarness(executor, scheduler, BUDGET)) {
            for (int i = 0; i < 150; i++) {
                engine.submit("r" + i, new int[40], EngineHarness.greedy(60));
            }
            engine.run();
            assertThat(executor.plans)
                    .as("plans that only move sequences out")
                    .anyMatch(plan -> !plan.swaps().isEmpty()
                            && plan.swaps().stream().allMatch(swap -> swap.to() == KvTier.HOST));
            engine.answers.forEach(
                    (id, answer) -> assertThat(answer.tokens).as(id).hasSize(60));
        }
    }
}
